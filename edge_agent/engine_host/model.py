"""A loaded model: its engine, what goes in and out, whether its first dimension is a batch, its decoder."""

import time

import numpy

from edge_agent.engine_host.decoders import registry
from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.failures import LoadError, shortened
from edge_agent.engine_host.tensors import NUMPY_TYPES, Spec

_DEFAULT_BATCH_SIZE = 4
_MAX_WARM_UP_BYTES = 1 << 30


class Model:
    """What an instance runs. `max_batch_size` 0 means that the first dimension is no batch."""

    def __init__(self, name, path, engine, inputs, outputs, max_batch_size, decoder):
        self.name = name
        self.path = path
        self.engine = engine
        self.inputs = inputs
        self.outputs = outputs
        self.max_batch_size = max_batch_size
        self.decoder = decoder
        self.output_names = [spec.name for spec in outputs]
        self.picture = _picture_index(inputs)

    @property
    def batched(self):
        """Whether the rows of several requests may run together."""
        return self.max_batch_size > 0

    def decode(self, outputs, picture_shape):
        """Detections of one picture from its outputs (name to array with a leading 1); picture_shape is its input's."""
        if len(picture_shape) == 3:  # a model without batch dimension: decoders see a batch of one
            outputs = {name: array[None] for name, array in outputs.items()}
        (objects,) = self.decoder.decode(outputs, 1, picture_size(picture_shape))
        return objects


def load(message):
    """(model, fields of the reply) for a `load` message; LoadError otherwise."""
    started = time.monotonic()
    warnings = []
    make = _KINDS.get(message["platform"])
    if make is None:
        name = "%s/%s" % (message["model"], message["version"])
        raise LoadError("%s: this host runs %s, not %s" % (name, ", ".join(sorted(_KINDS)), message["platform"]))
    model = make(message, warnings)
    reply = {
        "inputs": [spec.as_json() for spec in model.inputs],
        "outputs": [spec.as_json() for spec in model.outputs],
        "batched": model.batched,
        "max_batch_size": model.max_batch_size,
        "load_ms": int((time.monotonic() - started) * 1000),
        "warnings": warnings,
    }
    return model, reply


def _of_onnx(message, warnings):
    from edge_agent.engine_host import onnx_engine  # here, since a host of Python models may have numpy alone

    path = message["path"]
    engine = onnx_engine.open_engine(path, message["threads"])
    inputs = _merge(path, "input", engine.inputs, message.get("inputs"))
    outputs = _merge(path, "output", engine.outputs, message.get("outputs"))
    max_batch_size = _batch_size(path, message["max_batch_size"], inputs, outputs, warnings)
    model = _model(message, engine, inputs, outputs, max_batch_size)
    if message.get("warmup", True):
        _warm_up(model, message.get("warmup_sizes") or (), warnings)
    return model


def _of_python(message, warnings):
    """Not warmed up: what zeros would do in foreign code nobody knows."""
    from edge_agent.engine_host import python_model

    engine = python_model.open_engine(message)
    return _model(message, engine, engine.inputs, engine.outputs, engine.max_batch_size)


_KINDS = {"onnxruntime_onnx": _of_onnx, "python": _of_python}


def _model(message, engine, inputs, outputs, max_batch_size):
    name = "%s/%s" % (message["model"], message["version"])
    decoder = _make_decoder(message, inputs, outputs)
    return Model(name, message["path"], engine, inputs, outputs, max_batch_size, decoder)


def picture_size(shape):
    """(height, width) of a picture's input, NCHW or NHWC, with or without batch dimension."""
    dims = shape[-3:]
    return (dims[1], dims[2]) if dims[0] in (1, 3, 4) or dims[2] not in (1, 3, 4) else (dims[0], dims[1])


def _picture_index(inputs):
    for index, spec in enumerate(inputs):
        if len(spec.shape) in (3, 4) and spec.datatype != "BYTES":
            return index
    return 0


def _merge(path, role, found, declared):
    """The file's specs with the sizes that the configuration adds; what contradicts is a LoadError."""
    merged = {spec.name: spec for spec in found}
    for fields in declared or ():
        spec = merged.get(fields["name"])
        if spec is None:
            known = ", ".join("'%s'" % name for name in sorted(merged))
            raise LoadError("%s: has no %s '%s'; it has %s" % (path, role, fields["name"], known))
        if fields["datatype"] != spec.datatype:
            text = "%s: %s '%s' is %s, the configuration says %s"
            raise LoadError(text % (path, role, spec.name, spec.datatype, fields["datatype"]))
        merged[spec.name] = Spec(spec.name, spec.datatype, _merge_shape(path, role, spec, fields["shape"]))
    return [merged[spec.name] for spec in found]


def _merge_shape(path, role, spec, declared):
    # Triton's dims leave the batch dimension out; a whole shape is taken as well.
    dims = [-1] + list(declared) if len(declared) == len(spec.shape) - 1 else list(declared)
    if not spec.shape and role == "output":
        return dims  # the file does not tell the shape of this output
    if len(dims) != len(spec.shape) or any(a > 0 and b > 0 and a != b for a, b in zip(spec.shape, dims)):
        text = "%s: %s '%s' has shape %s, the configuration says %s"
        raise LoadError(text % (path, role, spec.name, list(spec.shape), list(declared)))
    return [max(a, b) for a, b in zip(spec.shape, dims)]


def _batch_size(path, asked, inputs, outputs, warnings):
    """The batch size that the graph can do, at most `asked`; None asks the file, in Triton's way of completing a config."""
    if asked is None:
        dynamic = inputs and all(spec.shape and spec.shape[0] < 0 for spec in inputs + outputs)
        return _DEFAULT_BATCH_SIZE if dynamic else 0
    if asked < 1:
        return 0
    for spec in inputs:
        if not spec.shape:
            raise LoadError("%s: input '%s' has no batch dimension; set max_batch_size = 0" % (path, spec.name))
    fixed = sorted({spec.shape[0] for spec in inputs if spec.shape[0] > 0})
    if fixed and fixed != [1]:
        text = "%s: takes exactly %d rows; make its first dimension dynamic or set max_batch_size = 0"
        raise LoadError(text % (path, fixed[-1]))
    if fixed and asked > 1:
        warnings.append(
            "%s: its first dimension is fixed at 1, so requests run one by one instead of up to %d together; "
            "export it with a dynamic batch dimension" % (path, asked)
        )
    return 1 if fixed else asked


def _make_decoder(message, inputs, outputs):
    try:
        return registry.make(message.get("decode"), inputs, outputs, message.get("directory", ""))
    except DecodeError as error:
        raise LoadError("%s: [decode] %s" % (message["path"], error)) from error


def _warm_up(model, preferred, warnings):
    """Runs zeros once at each end of the batch sizes and at those preferred, and looks at what comes.

    So no request pays for the first run of a size that will come often.
    """
    if any(dim < 0 for spec in model.inputs for dim in spec.shape[1 if model.batched else 0 :]):
        return  # sizes come with the first request
    try:
        _try_rows(model, 1)
    except LoadError:
        raise
    except Exception as error:  # noqa: BLE001 - the engine's own classes
        raise LoadError("%s: a run with zeros failed: %s" % (model.path, shortened(error))) from error
    for rows in sorted({model.max_batch_size, *preferred}, reverse=True):
        if 1 < rows <= model.max_batch_size and _input_bytes(model, rows) <= _MAX_WARM_UP_BYTES:
            _try_batch(model, rows, warnings)


def _try_batch(model, rows, warnings):
    """A model that cannot run so many rows runs requests one by one."""
    try:
        _try_rows(model, rows)
    except LoadError:
        raise
    except Exception as error:  # noqa: BLE001 - the engine's own classes
        warnings.append(
            "%s: runs 1 row but not %d, so requests run one by one; export it with a batch dimension that is dynamic "
            "throughout, or set max_batch_size = 1 (%s)" % (model.path, rows, shortened(error))
        )
        model.max_batch_size = 1


def _try_rows(model, rows):
    feeds = {}
    for spec in model.inputs:
        shape = (rows,) + spec.shape[1:] if model.batched else spec.shape
        feeds[spec.name] = _zeros(shape, spec.datatype)
    outputs = dict(zip(model.output_names, model.engine.run(model.output_names, feeds)))
    if model.batched:
        wrong = misfit(outputs, rows)
        if wrong:
            raise LoadError("%s: %s; set max_batch_size = 0" % (model.path, wrong))
    if model.decoder is not None:
        _try_decoder(model, outputs, feeds)


def _zeros(shape, datatype):
    return numpy.full(shape, "", object) if datatype == "BYTES" else numpy.zeros(shape, NUMPY_TYPES[datatype])


def _try_decoder(model, outputs, feeds):
    shape = feeds[model.inputs[model.picture].name].shape
    if model.batched:
        outputs = {name: array[:1] for name, array in outputs.items()}
    try:
        model.decode(outputs, shape)
    except DecodeError as error:
        raise LoadError("%s: [decode] %s" % (model.path, error)) from error
    except Exception as error:  # noqa: BLE001 - decoders may be the user's own
        text = "%s: [decode] the decoder failed on zeros: %s: %s"
        raise LoadError(text % (model.path, type(error).__name__, shortened(error))) from error


def _input_bytes(model, rows):
    return sum(rows * int(numpy.prod(spec.shape[1:])) * 8 for spec in model.inputs)


def misfit(outputs, rows):
    """Why outputs cannot be split by rows; empty when they can."""
    for name, array in outputs.items():
        if not array.shape or array.shape[0] != rows:
            got = "no rows" if not array.shape else "%d rows" % array.shape[0]
            return "output '%s' has %s for %d rows of input, so it cannot be batched" % (name, got, rows)
    return ""
