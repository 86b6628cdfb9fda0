"""A loaded model: its engine, what goes in and out, whether its first dimension is a batch, its decoder."""

import time

from edge_agent.engine_host.decoders import registry
from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.tensors import Spec
from edge_agent.engine_host.warm_up import warm_up

_DEFAULT_BATCH_SIZE = 4


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
    try:
        from edge_agent.engine_host import onnx_engine  # here, since a host of Python models may have numpy alone
    except ImportError as error:
        text = "%s: this host's interpreter cannot import onnxruntime: %s"
        raise LoadError(text % (message["path"], error), permanent=True) from error

    path = message["path"]
    engine = onnx_engine.open_engine(path, message["threads"])
    model = _of_file(message, engine, _DEFAULT_BATCH_SIZE, warnings)
    if message.get("warmup", True):
        warm_up(model, message.get("warmup_sizes") or (), warnings)
    return model


def _of_tensorrt(message, warnings):
    from edge_agent.engine_host.trt import engine as tensorrt  # here, since most hosts have no TensorRT

    path = message["path"]
    engine = tensorrt.open_engine(path, message.get("tensorrt") or {})
    try:
        largest = max(engine.rows or (1,))
        model = _of_file(message, engine, largest, warnings)
        _fit_profiles(model, message["max_batch_size"], largest, warnings)
        if message.get("warmup", True):
            warm_up(model, message.get("warmup_sizes") or (), warnings)
        return model
    except BaseException:
        engine.close()
        raise


def _fit_profiles(model, asked, largest, warnings):
    """The batches of a plan are those of its profiles."""
    if not model.batched:
        return
    model.engine.may_pad = True
    if largest < model.max_batch_size:
        text = "%s: its profiles end at %d rows, so at most %d of the %d rows asked for run together; build it with more"
        warnings.append(text % (model.path, largest, largest, asked))
        model.max_batch_size = largest


def _of_file(message, engine, default, warnings):
    path = message["path"]
    inputs = _merge(path, "input", engine.inputs, message.get("inputs"))
    outputs = _merge(path, "output", engine.outputs, message.get("outputs"))
    max_batch_size = _batch_size(path, message["max_batch_size"], default, inputs, outputs, warnings)
    return _model(message, engine, inputs, outputs, max_batch_size)


def _of_python(message, warnings):
    """Not warmed up: what zeros would do in foreign code nobody knows."""
    from edge_agent.engine_host import python_model

    engine = python_model.open_engine(message)
    return _model(message, engine, engine.inputs, engine.outputs, engine.max_batch_size)


_KINDS = {"onnxruntime_onnx": _of_onnx, "tensorrt_plan": _of_tensorrt, "python": _of_python}


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


def _batch_size(path, asked, default, inputs, outputs, warnings):
    """What the graph can do, at most `asked`; None: `default` where it is dynamic, as Triton completes a config."""
    if asked is None:
        dynamic = inputs and all(spec.shape and spec.shape[0] < 0 for spec in inputs + outputs)
        return default if dynamic else 0
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
