"""Writes the ONNX models of the check: a MobileNet with random weights, plain and quantized. Needs numpy alone."""

from __future__ import annotations

import struct
from typing import Any, Iterator, List, Sequence, Tuple, Union

import numpy as np

_FLOAT, _INT8 = 1, 3
_OPSET, _IR = 13, 7
_CLASSES = 1000
_LARGEST = 6.0  #: after each convolution values are cut to 0 to 6, so the range of activations is known
#: (channels, stride) of each pair of a depthwise and a pointwise convolution
_BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))


def mobilenet(size: int, width: float = 1.0, quantized: bool = False) -> bytes:
    """MobileNet v1 for pictures of `size` in 0 to 1; its batch dimension is open. The same weights each time."""
    graph = _Graph(quantized)
    channels = _scaled(32, width)
    at = graph.convolution("image", 3, channels, 3, 2, 1, 1.0)
    for full, stride in _BLOCKS:
        wanted = _scaled(full, width)
        at = graph.convolution(at, channels, channels, 3, stride, channels, _LARGEST)
        at = graph.convolution(at, channels, wanted, 1, 1, 1, _LARGEST)
        channels = wanted
    at = graph.node("GlobalAveragePool", [at])
    at = graph.node("Flatten", [at], axis=1)
    weights = graph.constant(graph.random((channels, _CLASSES), channels))
    graph.node("MatMul", [at, weights], output="scores")
    return graph.model(("image", ("N", 3, size, size)), ("scores", ("N", _CLASSES)))


def _scaled(channels: int, width: float) -> int:
    return max(8, int(channels * width) // 8 * 8)


class _Graph:
    """Nodes and constants, encoded as they come."""

    def __init__(self, quantized: bool) -> None:
        self._quantized = quantized
        self._nodes: List[bytes] = []
        self._constants: List[bytes] = []
        self._random = np.random.RandomState(7)
        self._names = 0

    def _name(self) -> str:
        self._names += 1
        return "t%d" % self._names

    def random(self, shape: Tuple[int, ...], inputs: int) -> Any:
        """Weights that keep the size of what goes through them."""
        return (self._random.standard_normal(shape) * np.sqrt(2.0 / inputs)).astype(np.float32)

    def constant(self, array: Any) -> str:
        """Its name."""
        name = self._name()
        kind = _INT8 if array.dtype == np.int8 else _FLOAT
        dims = b"".join(_number(1, dim) for dim in array.shape)
        self._constants.append(dims + _number(2, kind) + _bytes(8, name) + _bytes(9, np.ascontiguousarray(array).tobytes()))
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str = "", **attributes: Union[int, Sequence[int]]) -> str:
        """The name of its output."""
        output = output or self._name()
        encoded = b"".join(_bytes(1, name) for name in inputs) + _bytes(2, output) + _bytes(4, kind)
        self._nodes.append(encoded + b"".join(_bytes(5, _attribute(*item)) for item in sorted(attributes.items())))
        return output

    def convolution(self, at: str, inputs: int, outputs: int, kernel: int, stride: int, groups: int, largest: float) -> str:
        """Followed by a cut to 0 to 6. `largest` is what may come in."""
        weights = self.random((outputs, inputs // groups, kernel, kernel), inputs // groups * kernel * kernel)
        bias = self.constant((self._random.standard_normal(outputs) * 0.1).astype(np.float32))
        if self._quantized:
            at = self._coarse(at, largest)
            weights_name = self._coarse_weights(weights)
        else:
            weights_name = self.constant(weights)
        pads = [kernel // 2] * 4
        made = self.node(
            "Conv", [at, weights_name, bias], group=groups, kernel_shape=[kernel] * 2, pads=pads, strides=[stride] * 2
        )
        low, high = self.constant(np.float32(0)), self.constant(np.float32(_LARGEST))
        return self.node("Clip", [made, low, high])

    def _coarse(self, at: str, largest: float) -> str:
        scale, zero = self.constant(np.float32(largest / 127)), self.constant(np.int8(0))
        return self.node("DequantizeLinear", [self.node("QuantizeLinear", [at, scale, zero]), scale, zero])

    def _coarse_weights(self, weights: Any) -> str:
        step = np.abs(weights).max() / 127
        whole = self.constant(np.round(weights / step).astype(np.int8))
        return self.node("DequantizeLinear", [whole, self.constant(np.float32(step)), self.constant(np.int8(0))])

    def model(self, given: Tuple[str, Sequence[Any]], found: Tuple[str, Sequence[Any]]) -> bytes:
        """The file."""
        parts = [_bytes(1, node) for node in self._nodes]
        parts.append(_bytes(2, "mobilenet"))
        parts += [_bytes(5, constant) for constant in self._constants]
        parts += [_bytes(11, _value(*given)), _bytes(12, _value(*found))]
        return _number(1, _IR) + _bytes(2, "edge-agent gpu_check") + _bytes(7, b"".join(parts)) + _bytes(8, _number(2, _OPSET))


# -- the wire format of protobuf ---------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    return b"".join(_groups(value))


def _groups(value: int) -> Iterator[bytes]:
    while value > 127:
        yield struct.pack("B", value & 127 | 128)
        value >>= 7
    yield struct.pack("B", value)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _bytes(field: int, value: Union[bytes, str]) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: Union[int, Sequence[int]]) -> bytes:
    if isinstance(value, int):
        return _bytes(1, name) + _number(3, value) + _number(20, 2)
    return _bytes(1, name) + b"".join(_number(8, one) for one in value) + _number(20, 7)


def _value(name: str, shape: Sequence[Any]) -> bytes:
    dims = b"".join(_bytes(1, _number(1, dim) if isinstance(dim, int) else _bytes(2, dim)) for dim in shape)
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, _FLOAT) + _bytes(2, dims)))
