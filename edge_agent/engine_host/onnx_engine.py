"""ONNX Runtime behind the few calls that a host makes of an engine."""

import contextlib
import os

import onnxruntime

from edge_agent.engine_host.failures import LoadError, shortened
from edge_agent.engine_host.tensors import Spec

_ERRORS_ONLY = 3
_BROKEN = "InvalidProtobuf"  #: ONNX Runtime's class of error for what is no model, or could not be read to its end
#: its classes of error that are about the model; what else goes wrong may be otherwise the next time
_MODELS_OWN = ("Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf", "NotImplemented")
_MEMORY_WORDS = ("alloc", "memory")
_PIECE = 1 << 20
_DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
}


class OnnxEngine:
    """One session of ONNX Runtime on the CPU."""

    apart = False  #: the rows of several requests run as one
    text = True  #: BYTES are str

    def __init__(self, session, inputs, outputs):
        self._session = session
        self.inputs = inputs
        self.outputs = outputs

    def run(self, names, feeds):
        """The named outputs as arrays. Raises whatever ONNX Runtime raises."""
        return self._session.run(names, feeds)

    def close(self):
        """The session goes with its last reference."""


def open_engine(path, threads):
    """A session for the model file; LoadError with the file's name otherwise."""
    _check_file(path)
    try:
        session = _session(path, threads)
    except Exception as error:  # noqa: BLE001 - the library raises classes of its own without a common base
        session = _once_more(path, threads, error)
    inputs = [_spec(path, "input", value) for value in session.get_inputs()]
    outputs = [_spec(path, "output", value) for value in session.get_outputs()]
    return OnnxEngine(session, inputs, outputs)


def _session(path, threads):
    return onnxruntime.InferenceSession(path, _options(threads), providers=["CPUExecutionProvider"])


def _once_more(path, threads, error):
    """ONNX Runtime says of a read that failed that the model is broken: where the file can be read it is asked again."""
    with _reading(path) as file:
        while file.read(_PIECE):
            pass
    if type(error).__name__ == _BROKEN:
        try:
            return _session(path, threads)
        except Exception as again:  # noqa: BLE001 - see above
            error = again
    text = "%s: ONNX Runtime %s cannot load it: %s"
    raise LoadError(text % (path, onnxruntime.__version__, shortened(error)), permanent=_cannot_run(error)) from error


def _cannot_run(error):
    """Whether ONNX Runtime would say the same of this model again."""
    said = str(error).lower()
    return type(error).__name__ in _MODELS_OWN and not any(word in said for word in _MEMORY_WORDS)


def _check_file(path):
    """Says plainly what ONNX Runtime would wrap in a parser's words."""
    with _reading(path) as file:
        first = file.read(1)
    if not first:
        raise LoadError("%s: the file is empty; copy it again" % path)


@contextlib.contextmanager
def _reading(path):
    """The open file; that it cannot be read may pass, that it is not there will not."""
    try:
        with open(path, "rb") as file:
            yield file
    except OSError as error:
        text = "%s: cannot be read: %s" % (path, os.strerror(error.errno))
        raise LoadError(text, "" if isinstance(error, FileNotFoundError) else "model.unreadable") from error


def _options(threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = _ERRORS_ONLY
    # Spinning threads take a whole core while they wait, from cameras and from the agent.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return options


def _spec(path, role, value):
    datatype = _DATATYPES.get(value.type)
    if datatype is None:
        text = "%s: %s '%s' is a %s, which this agent cannot carry; convert the model"
        raise LoadError(text % (path, role, value.name, value.type))
    shape = [dim if isinstance(dim, int) and dim > 0 else -1 for dim in value.shape]
    return Spec(value.name, datatype, shape)
