"""ONNX's types as TensorRT carries them, by generation."""

from fake_gpu.generation import ENUMS, enum

_DIRECT = ("FLOAT", "HALF", "INT8", "INT32", "INT64", "BOOL", "UINT8", "BF16")
_CAST = {"INT64": "INT32", "DOUBLE": "FLOAT"}
_BYTES = {"FLOAT": 4, "HALF": 2, "INT8": 1, "INT32": 4, "INT64": 8, "BOOL": 1, "UINT8": 1, "BF16": 2}


def carried(onnx_type):
    """The library's type for one of ONNX; None where it cannot carry it. INT64 becomes INT32 before 10."""
    members = ENUMS["DataType"].__members__
    if onnx_type in _DIRECT and onnx_type in members:
        return members[onnx_type]
    return members.get(_CAST.get(onnx_type))


def size(kind):
    """Bytes of one element."""
    return _BYTES[kind.name]


def layer_type(operator):
    """The kind of layer that a node becomes."""
    kinds = enum("LayerType")
    name = {
        "QuantizeLinear": "QUANTIZE", "DequantizeLinear": "DEQUANTIZE", "Conv": "CONVOLUTION", "Identity": "IDENTITY",
        "Cast": "CAST", "Reshape": "SHUFFLE", "Transpose": "SHUFFLE", "NonZero": "NON_ZERO", "Softmax": "SOFTMAX",
        "MatMul": "MATRIX_MULTIPLY", "Relu": "ACTIVATION", "MaxPool": "POOLING", "Gather": "GATHER",
    }.get(operator, "ELEMENTWISE")  # fmt: skip
    return getattr(kinds, name, kinds.ELEMENTWISE)
