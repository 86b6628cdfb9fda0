"""TensorRT's datatypes by the protocol's names.

Its own `nptype` is not asked: it knows no bfloat16, and with the older libraries it fails under newer numpy.
"""

from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.tensors import NUMPY_TYPES

_DATATYPES = (
    ("FLOAT", "FP32"),
    ("HALF", "FP16"),
    ("INT8", "INT8"),
    ("INT32", "INT32"),
    ("BOOL", "BOOL"),
    ("UINT8", "UINT8"),
    ("INT64", "INT64"),
    ("BF16", "BF16"),
)


def datatype_of(trt, path, name, theirs):
    """The protocol's name of a tensor's datatype; LoadError where it cannot be carried."""
    for known, ours in _DATATYPES:
        if getattr(trt.DataType, known, None) == theirs:
            if NUMPY_TYPES[ours] is None:
                text = "%s: tensor '%s' is %s, which needs the package ml_dtypes in the host's interpreter"
                raise LoadError(text % (path, name, ours))
            return ours
    text = "%s: tensor '%s' is %s, which this agent cannot carry; build the plan with inputs and outputs of FP32 or FP16"
    raise LoadError(text % (path, name, getattr(theirs, "name", theirs)))
