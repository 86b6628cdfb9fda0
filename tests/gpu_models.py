"""Tiny ONNX models that a TensorRT builder tells apart, written by the wire format alone (Python 3.6 has no onnx package).

Each function writes one model and answers its path. Opset 13 and IR 7, as for tests/models.
"""

import os
import struct

from tests.fake_gpu import fake_module

_FLOAT, _INT8, _INT64, _HALF = 1, 3, 7, 10
_VARINT, _BYTES = 0, 2
_OPSET, _IR = 13, 7


encode = fake_module("onnx_file").encode


def quantized(path):
    """y = x in steps of 0.1, plus 1: a model with Q/DQ nodes. x, y: FP32 [N, 4]."""
    nodes = [
        node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
        node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        node("Add", ["d", "one"], ["y"]),
    ]
    constants = [floats("scale", [], [0.1]), tensor("zero", _INT8, [], b"\0"), floats("one", [], [1.0])]
    return write(path, nodes, [value("x", _FLOAT, ["N", 4])], [value("y", _FLOAT, ["N", 4])], constants)


def half(path):
    """y = x + 1, computed in FP16 by the model's own types. x, y: FP32 [N, 4]."""
    nodes = [
        node("Cast", ["x"], ["h"], to=_HALF),
        node("Add", ["h", "one"], ["s"]),
        node("Cast", ["s"], ["y"], to=_FLOAT),
    ]
    constants = [tensor("one", _HALF, [], struct.pack("<H", 0x3C00))]
    return write(path, nodes, [value("x", _FLOAT, ["N", 4])], [value("y", _FLOAT, ["N", 4])], constants)


def unknown_operator(path):
    """Its only node is called Frobnicate, which nobody knows."""
    nodes = [node("Frobnicate", ["x"], ["y"])]
    return write(path, nodes, [value("x", _FLOAT, ["N", 4])], [value("y", _FLOAT, ["N", 4])])


def tiled(path):
    """y = x, repeated as the input `repeats` (INT64 [2]) says: an input whose values are sizes."""
    inputs = [value("x", _FLOAT, ["N", 4]), value("repeats", _INT64, [2])]
    return write(path, [node("Tile", ["x", "repeats"], ["y"])], inputs, [value("y", _FLOAT, ["A", "B"])])


def external(path, name="weights.bin"):
    """y = x + weights (1, 2, 3, 4), which lie in another file beside it. x, y: FP32 [N, 4]."""
    with open(os.path.join(os.path.dirname(str(path)), name), "wb") as file:
        file.write(struct.pack("<4f", 1, 2, 3, 4))
    entry = encode([(1, _BYTES, b"location"), (2, _BYTES, name.encode())])
    weights = encode([(1, _VARINT, 4), (2, _VARINT, _FLOAT), (8, _BYTES, b"weights"), (13, _BYTES, entry), (14, _VARINT, 1)])
    nodes = [node("Add", ["x", "weights"], ["y"])]
    return write(path, nodes, [value("x", _FLOAT, ["N", 4])], [value("y", _FLOAT, ["N", 4])], [weights])


def convolution(path, side=16, channels=8):
    """A convolution and a ReLU, batch and picture sizes dynamic: x FP32 [N, 3, H, W], y FP32 [N, channels, H, W]."""
    weights = [((index * 7) % 11 - 5) / 50.0 for index in range(channels * 3 * 9)]
    nodes = [
        node("Conv", ["x", "w"], ["c"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["y"]),
    ]
    shape = ["N", 3, "H", "W"] if side is None else ["N", 3, side, side]
    inputs, outputs = [value("x", _FLOAT, shape)], [value("y", _FLOAT, shape[:1] + [channels] + shape[2:])]
    return write(path, nodes, inputs, outputs, [floats("w", [channels, 3, 3, 3], weights)])


def garbage(path):
    """No ONNX at all."""
    with open(str(path), "wb") as file:
        file.write(b"\x00this is no model\xff" * 50)
    return path


def write(path, nodes, inputs, outputs, constants=()):
    """A model of these parts."""
    parts = [(1, _BYTES, one) for one in nodes] + [(2, _BYTES, b"g")] + [(5, _BYTES, one) for one in constants]
    parts += [(11, _BYTES, one) for one in inputs] + [(12, _BYTES, one) for one in outputs]
    opset = encode([(1, _BYTES, b""), (2, _VARINT, _OPSET)])
    with open(str(path), "wb") as file:
        file.write(encode([(1, _VARINT, _IR), (7, _BYTES, encode(parts)), (8, _BYTES, opset)]))
    return path


def node(operator, inputs, outputs, **attributes):
    """A node; attributes are numbers or lists of numbers."""
    parts = [(1, _BYTES, name.encode()) for name in inputs] + [(2, _BYTES, name.encode()) for name in outputs]
    parts += [(3, _BYTES, ("n_" + outputs[0]).encode()), (4, _BYTES, operator.encode())]
    for name, given in sorted(attributes.items()):
        if isinstance(given, int):
            fields = [(3, _VARINT, given), (20, _VARINT, 2)]
        else:
            fields = [(8, _VARINT, number) for number in given] + [(20, _VARINT, 7)]
        parts.append((5, _BYTES, encode([(1, _BYTES, name.encode())] + fields)))
    return encode(parts)


def value(name, kind, shape):
    """An input or output; text in the shape is a dynamic size."""
    dims = b""
    for size in shape:
        dim = (1, _VARINT, size) if isinstance(size, int) else (2, _BYTES, size.encode())
        dims += encode([(1, _BYTES, encode([dim]))])
    typed = encode([(1, _BYTES, encode([(1, _VARINT, kind), (2, _BYTES, dims)]))])
    return encode([(1, _BYTES, name.encode()), (2, _BYTES, typed)])


def tensor(name, kind, shape, raw):
    """A constant of raw bytes."""
    return encode([(1, _VARINT, size) for size in shape] + [(2, _VARINT, kind), (8, _BYTES, name.encode()), (9, _BYTES, raw)])


def floats(name, shape, numbers):
    """A constant of FP32."""
    return tensor(name, _FLOAT, shape, struct.pack("<%df" % len(numbers), *numbers))
