"""Reads of an ONNX file what a TensorRT parser tells of it, by the protobuf wire format alone (no onnx package on 3.6)."""

import os
import struct

_VARINT, _FIXED64, _BYTES, _END_GROUP, _FIXED32 = 0, 1, 2, 4, 5
_EXTERNAL = 1
_FLOAT, _BF16 = 1, 16
_CAST = "%s as float"

TYPES = {
    1: "FLOAT", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 8: "STRING", 9: "BOOL",
    10: "HALF", 11: "DOUBLE", 12: "UINT32", 13: "UINT64", 16: "BF16",
}  # fmt: skip

#: operators and their inputs that say a shape
_SHAPE_INPUTS = {"Reshape": (1,), "Expand": (1,), "Tile": (1,), "ConstantOfShape": (0,), "Resize": (3,)}
_DATA_DEPENDENT = ("NonZero", "NonMaxSuppression", "Unique", "Compress")


class Malformed(Exception):
    """No protobuf, or no ONNX model."""


class Node:
    """One node of the graph."""

    def __init__(self, data):
        fields = parse(data)
        self.inputs = texts(fields, 1)
        self.outputs = texts(fields, 2)
        self.name = "".join(texts(fields, 3))
        self.operator = "".join(texts(fields, 4))
        self.domain = "".join(texts(fields, 7))
        self.attributes = {}
        for attribute in values(fields, 5):
            inner = parse(attribute)
            self.attributes["".join(texts(inner, 1))] = (values(inner, 3) or [None])[0]


class Model:
    """Inputs and outputs are (name, type, dims), -1 for what is dynamic; `data` holds external weights too."""

    def __init__(self, data, folder=None):
        try:
            self._read(data, folder)
        except (struct.error, IndexError, UnicodeDecodeError, TypeError, AttributeError) as error:
            raise Malformed(str(error)) from error

    def _read(self, data, folder):
        model = parse(data, lenient=True)
        graphs = values(model, 7)
        graph = parse(graphs[0] if graphs else b"")
        self.nodes = [Node(node) for node in values(graph, 1)]
        tensors = [parse(tensor) for tensor in values(graph, 5)]
        self.initializers = {"".join(texts(tensor, 8)): _type((values(tensor, 2) or [0])[0]) for tensor in tensors}
        self.inputs = [value for value in map(_value, values(graph, 11)) if value[0] not in self.initializers]
        self.outputs = [_value(value) for value in values(graph, 12)]
        self.data = _with_weights(model, graph, folder) if _is_external(tensors) else bytes(data)

    def runnable(self):
        """The bytes for ONNX Runtime, which takes no BF16 from Python: such inputs and outputs become FLOAT."""
        halves = {name for name, kind, _ in self.inputs + self.outputs if kind == "BF16"}
        if not halves:
            return self.data
        model = parse(self.data)
        graph = parse(values(model, 7)[0])
        first = [(1, _BYTES, _cast(_CAST % name, name, _BF16)) for name, kind, _ in self.inputs if kind == "BF16"]
        last = [(1, _BYTES, _cast(name, _CAST % name, _FLOAT)) for name, kind, _ in self.outputs if kind == "BF16"]
        nodes = [part for part in graph if part[0] == 1]
        others = [
            (field, wire, _as_float(value) if field in (11, 12) and _value(value)[0] in halves else value)
            for field, wire, value in graph
            if field != 1
        ]
        graph = encode(first + nodes + last + others)
        return encode([(field, wire, graph if field == 7 else value) for field, wire, value in model])

    def data_dependent(self):
        """Names of outputs whose shapes depend on values."""
        tainted = set()
        for node in self.nodes:
            if node.operator in _DATA_DEPENDENT or tainted.intersection(node.inputs):
                tainted.update(node.outputs)
        return {name for name, _, _ in self.outputs if name in tainted}

    def shape_inputs(self):
        """Names of inputs whose values are sizes."""
        says = {
            node.inputs[place]
            for node in self.nodes
            for place in _SHAPE_INPUTS.get(node.operator, ())
            if place < len(node.inputs)
        }
        return {name for name, _, _ in self.inputs if name in says}

    def output_types(self):
        """For each node the types of its outputs, as far as simple rules tell."""
        known = dict(self.initializers)
        known.update({name: kind for name, kind, _ in self.inputs + self.outputs})
        for node in self.nodes:
            kind = _node_type(node, known)
            for name in node.outputs:
                known.setdefault(name, kind)
        return [[known.get(name, "FLOAT") for name in node.outputs] for node in self.nodes]


def _cast(source, target, to):
    """A node Cast."""
    attribute = encode([(1, _BYTES, b"to"), (3, _VARINT, to), (20, _VARINT, 2)])
    return encode([(1, _BYTES, source.encode()), (2, _BYTES, target.encode()), (4, _BYTES, b"Cast"), (5, _BYTES, attribute)])


def _as_float(data):
    """The value info of a cast input or output."""
    fields = parse(data)
    tensor = parse(values(parse(values(fields, 2)[0]), 1)[0])
    tensor = encode([(1, _VARINT, _FLOAT)] + [part for part in tensor if part[0] != 1])
    name = (_CAST % "".join(texts(fields, 1))).encode()
    return encode([(1, _BYTES, name), (2, _BYTES, encode([(1, _BYTES, tensor)]))])


def _node_type(node, known):
    if node.operator == "Cast":
        return _type(node.attributes.get("to"))
    if node.operator == "QuantizeLinear":
        return "INT8"
    if node.operator == "DequantizeLinear":
        return "FLOAT"
    return next((known[name] for name in node.inputs if name in known), "FLOAT")


def _type(number):
    return TYPES.get(number, "UNDEFINED")


def parse(data, lenient=False):
    """[(field, wire type, value)] of a message; bytes for whatever has a length.

    Lenient: what cannot be the key of a field ends the message, as protobuf's streams have it for the outermost one.
    """
    found, place = [], 0
    while place < len(data):
        key, place = _varint(data, place)
        field, wire = key >> 3, key & 7
        if lenient and (key == 0 or wire == _END_GROUP):
            break
        if wire == _VARINT:
            value, place = _varint(data, place)
        elif wire == _BYTES:
            length, place = _varint(data, place)
            value, place = bytes(data[place : place + length]), place + length
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
            value, place = bytes(data[place : place + length]), place + length
        else:
            raise Malformed("wire type %d" % wire)
        if place > len(data) or field == 0:
            raise Malformed("cut off")
        found.append((field, wire, value))
    return found


def _varint(data, place):
    value = shift = 0
    while True:
        if place >= len(data) or shift > 63:
            raise Malformed("cut off")
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        shift += 7
        if not byte & 0x80:
            return value, place


def values(fields, number):
    """The values of one field."""
    return [value for field, _, value in fields if field == number]


def texts(fields, number):
    """The same as text."""
    return [value.decode() for value in values(fields, number)]


def _value(data):
    fields = parse(data)
    tensor = parse((values(parse((values(fields, 2) or [b""])[0]), 1) or [b""])[0])
    shapes = values(tensor, 2)
    dims = []
    for dim in values(parse(shapes[0]), 1) if shapes else ():
        size = (values(parse(dim), 1) or [0])[0]
        dims.append(size if 0 < size < 1 << 31 else -1)
    return "".join(texts(fields, 1)), _type((values(tensor, 1) or [0])[0]), dims if shapes else None


def _is_external(tensors):
    return any((values(tensor, 14) or [0])[0] == _EXTERNAL for tensor in tensors)


def _with_weights(model, graph, folder):
    """The model's bytes with its external weights within."""
    graph = [(field, wire, _inlined(value, folder) if field == 5 else value) for field, wire, value in graph]
    return encode([(field, wire, encode(graph) if field == 7 else value) for field, wire, value in model])


def _inlined(data, folder):
    tensor = parse(data)
    if not _is_external([tensor]):
        return data
    entries = {"".join(texts(parse(entry), 1)): "".join(texts(parse(entry), 2)) for entry in values(tensor, 13)}
    if folder is None:
        raise Malformed("external weights, and no file that they lie beside")
    with open(os.path.join(folder, entries["location"]), "rb") as file:
        file.seek(int(entries.get("offset", 0)))
        raw = file.read(int(entries["length"])) if "length" in entries else file.read()
    return encode([part for part in tensor if part[0] not in (9, 13, 14)] + [(9, _BYTES, raw)])


def encode(fields):
    """The message of those fields."""
    parts = []
    for field, wire, value in fields:
        parts.append(_as_varint(field << 3 | wire))
        if wire == _VARINT:
            parts.append(_as_varint(value))
        else:
            parts.extend([_as_varint(len(value)), value] if wire == _BYTES else [value])
    return b"".join(parts)


def _as_varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
