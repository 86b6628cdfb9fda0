"""Optimization profiles: as given, or derived from the network's dynamic sizes and what the configuration says. Pure."""

import collections
import json
import re

from edge_agent.engine_host.build.failures import refused

_DEFAULT_BATCH_SIZE = 4  # as for ONNX Runtime, where nobody says it
_EXAMPLES = (320, 640, 1280)

#: an input of the network: -1 is any size; `values`: it holds a shape, and a profile says which
Input = collections.namedtuple("Input", "name shape values")
#: what the profile says about one input
Range = collections.namedtuple("Range", "min opt max")


def batch_size(asked, inputs, outputs):
    """The largest batch; 0: the first dimension is none. None asks the network: where all its tensors leave it open."""
    if asked is not None:
        return max(asked, 0)
    tensors = list(inputs) + list(outputs)
    return _DEFAULT_BATCH_SIZE if all(shape and shape[0] < 0 for shape in tensors) else 0


def profiles(inputs, given, declared, max_batch_size, usual_batch_size):
    """Profiles as [{name: Range}] for what is dynamic; none where nothing is. Refused (build.no_profile) says what lacks."""
    open_inputs = [tensor for tensor in inputs if tensor.values or any(dim < 0 for dim in tensor.shape)]
    batch = _batch(max_batch_size, usual_batch_size)
    if given:
        return _given(inputs, open_inputs, given, batch)
    if not open_inputs:
        return []
    return [{tensor.name: _derived(tensor, declared.get(tensor.name), batch) for tensor in open_inputs}]


def _batch(largest, usual):
    """The batch dimension's Range; None without one."""
    if not largest:
        return None
    return Range(1, min(usual, largest) if usual > 0 else largest, largest)


def _derived(tensor, declared, batch):
    if tensor.values:
        raise _nobody_says(tensor, "it holds sizes that the model uses, and nobody says which values may come", batch)
    shape = _merged(tensor, declared)
    sizes = [(dim, dim, dim) for dim in shape]
    if batch is not None and shape[0] < 0:
        sizes[0] = tuple(batch)
    unknown = [str(index) for index, (low, _, _) in enumerate(sizes) if low < 0]
    if unknown:
        raise _nobody_says(
            tensor._replace(shape=shape), "nobody says how large its dimension %s may be" % " and ".join(unknown), batch
        )
    return Range(*(tuple(dims) for dims in zip(*sizes)))


def _merged(tensor, declared):
    """The network's sizes with the configured ones; Triton's dims leave the batch dimension out, or not."""
    if declared is None:
        return tensor.shape
    whole = (-1,) + tuple(declared) if len(declared) == len(tensor.shape) - 1 else declared
    if len(whole) != len(tensor.shape) or any(a > 0 and b > 0 and a != b for a, b in zip(tensor.shape, whole)):
        text = "input '%s' has shape %s, the configuration says %s"
        raise _wrong(text % (tensor.name, list(tensor.shape), list(declared)))
    return tuple(max(a, b) for a, b in zip(tensor.shape, whole))


def _nobody_says(tensor, why, batch):
    example = "[build] profiles = [{ %s = { %s } }]" % (_key(tensor.name), _example(tensor, batch))
    text = "input '%s' has shape %s, and %s; write it into the model's config.toml, for example %s"
    return _wrong(text % (tensor.name, list(tensor.shape), why, example))


def _example(tensor, batch):
    parts = []
    for index, name in enumerate(Range._fields):
        dims = [_EXAMPLES[index] if dim < 0 else dim for dim in tensor.shape]
        if batch is not None and dims and tensor.shape[0] < 0:
            dims[0] = batch[index]
        parts.append("%s = %s" % (name, json.dumps(dims)))
    return ", ".join(parts)


def _key(name):
    """A TOML key."""
    return name if re.match(r"^[A-Za-z0-9_-]+$", name) else json.dumps(name)


def _given(inputs, open_inputs, given, batch):
    known = {tensor.name: tensor for tensor in inputs}
    found = []
    for number, profile in enumerate(given, 1):
        strangers = sorted(set(profile) - set(known))
        if strangers:
            text = "[build] profile %d names the input '%s', the model has %s"
            raise _wrong(text % (number, strangers[0], ", ".join("'%s'" % name for name in sorted(known))))
        ranges = {name: _checked(known[name], sizes, batch, number) for name, sizes in profile.items()}
        for tensor in open_inputs:
            if tensor.name not in ranges:
                raise _nobody_says(tensor, "nobody says it in [build] profile %d" % number, batch)
        found.append({tensor.name: ranges[tensor.name] for tensor in open_inputs})
    return found if open_inputs else []


def _checked(tensor, sizes, batch, number):
    """One input's Range out of what is configured; the batch dimension may be left out, as in Triton's dims."""
    try:
        ranges = Range(*(tuple(int(dim) for dim in sizes[name]) for name in Range._fields))
    except (KeyError, TypeError, ValueError):
        raise _wrong("[build] profile %d: input '%s' needs min, opt and max" % (number, tensor.name)) from None
    if not tensor.values:
        if batch is not None and len(ranges.min) == len(tensor.shape) - 1:
            ranges = Range(*((rows,) + dims for rows, dims in zip(batch, ranges)))
        _fit(tensor, ranges, number)
    if len({len(dims) for dims in ranges}) > 1 or any(not 0 <= low <= mid <= high for low, mid, high in zip(*ranges)):
        text = "[build] profile %d: input '%s' must have 0 <= min <= opt <= max in each dimension"
        raise _wrong(text % (number, tensor.name))
    return ranges


def _fit(tensor, ranges, number):
    shape = tensor.shape
    for dims in ranges:
        if len(dims) != len(shape) or any(size > 0 and size != dim for size, dim in zip(shape, dims)):
            text = "[build] profile %d: input '%s' has shape %s, %s does not fit it"
            raise _wrong(text % (number, tensor.name, list(shape), list(dims)))


def _wrong(text):
    return refused("build.no_profile", text, permanent=True)


def as_json(found):
    """Profiles as the agent reads them."""
    return [
        {name: {key: list(value) for key, value in sizes._asdict().items()} for name, sizes in one.items()} for one in found
    ]
