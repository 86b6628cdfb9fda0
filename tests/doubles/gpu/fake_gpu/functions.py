"""Functions of the module `tensorrt`."""

from fake_gpu import logger as loggers

_NUMPY = {
    "FLOAT": "float32",
    "HALF": "float16",
    "INT8": "int8",
    "INT32": "int32",
    "INT64": "int64",
    "BOOL": "bool",
    "UINT8": "uint8",
}


def nptype(trt_type):
    """numpy's type of a datatype."""
    import numpy

    if trt_type.name not in _NUMPY:
        raise TypeError("Could not resolve TensorRT datatype to an equivalent numpy datatype.")
    return numpy.bool_ if trt_type.name == "BOOL" else getattr(numpy, _NUMPY[trt_type.name])


def volume(iterable):
    """The product."""
    product = 1
    for size in iterable:
        product *= size
    return product


def init_libnvinfer_plugins(logger, namespace):
    """Registers what comes with the library."""
    loggers.take(logger)
    return True
