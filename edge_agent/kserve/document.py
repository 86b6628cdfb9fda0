"""The JSON part of an inference request to InferBody: types, names, sizes, reserved parameters."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from edge_agent.domain.requests import Parameter
from edge_agent.domain.tensors import DataType
from edge_agent.errors import InvalidRequest, Unsupported
from edge_agent.kserve import fields, json_tensors
from edge_agent.kserve.body import InferBody, InputPart, OutputPart
from edge_agent.kserve.fields import shown
from edge_agent.kserve.shapes import count_of, parse_shape

MAX_TENSORS = 255  #: inputs or outputs of one request: their number is one byte in the host's messages

_SHARED_MEMORY = "shared_memory_region"


class DocumentReader:
    """Reads one document; knows how many binary bytes are still unclaimed (`binary_bytes` None: not known)."""

    def __init__(self, head_bytes: int, binary_bytes: Optional[int], hint: str) -> None:
        self._at = head_bytes
        self._end = None if binary_bytes is None else head_bytes + binary_bytes
        self._hint = hint

    def read(self, document: Dict[str, Any], request_id: str) -> InferBody:
        """The request; InvalidRequest names the field at fault."""
        for key, value in document.items():
            if key not in ("inputs", "outputs", "parameters"):
                fields.check_nesting(value, "'%s'" % shown(key))
        asked = fields.parameters(document, "'parameters'")
        binary_default = fields.flag(asked.get("binary_data_output", False), "'parameters.binary_data_output'")
        body = InferBody(
            id=request_id,
            parameters=_custom_parameters(asked),
            inputs=self._inputs(document),
            outputs=_outputs(document, binary_default),
            priority=fields.unsigned(asked.get("priority", 0), "'parameters.priority'"),
            timeout_us=fields.unsigned(asked.get("timeout", 0), "'parameters.timeout'"),
            binary_default=binary_default,
        )
        if self._end is not None and self._at != self._end:
            raise InvalidRequest("unexpected additional input data for model: %d bytes are left over" % (self._end - self._at))
        return body

    def _inputs(self, document: Dict[str, Any]) -> Tuple[InputPart, ...]:
        if "inputs" not in document:
            raise InvalidRequest("'inputs' is missing")
        items = fields.array(document["inputs"], "'inputs'")
        if not 0 < len(items) <= MAX_TENSORS:
            raise InvalidRequest("'inputs' must hold 1 to %d tensors, got %d" % (MAX_TENSORS, len(items)))
        parts: List[InputPart] = []
        names = set()
        for number, item in enumerate(items):
            part = self._input(fields.mapping(item, "'inputs[%d]'" % number), "inputs[%d]" % number)
            if part.name in names:
                raise InvalidRequest("input '%s' already exists in request ('inputs[%d].name')" % (shown(part.name), number))
            names.add(part.name)
            parts.append(part)
        return tuple(parts)

    def _input(self, item: Dict[str, Any], where: str) -> InputPart:
        name = _name(item, where)
        datatype = _datatype(item, where)
        if "shape" not in item:
            raise InvalidRequest("'%s.shape' is missing" % where)
        shape = parse_shape(item["shape"], "'%s.shape'" % where, datatype.itemsize)
        asked = fields.parameters(item, "'%s.parameters'" % where)
        if _SHARED_MEMORY in asked:
            raise Unsupported("'%s.parameters.%s': shared memory is disabled on this agent" % (where, _SHARED_MEMORY))
        if ("data" in item) == ("binary_data_size" in asked):
            text = "'%s' ('%s') must have exactly one of 'data' and 'parameters.binary_data_size'"
            raise InvalidRequest(text % (where, shown(name)))
        if "data" in item:
            data = fields.array(item["data"], "'%s.data'" % where)
            packed = json_tensors.to_bytes(data, datatype, shape, count_of(shape), shown(name))
            return InputPart(name, datatype, shape, len(packed), data=packed)
        nbytes = fields.unsigned(asked["binary_data_size"], "'%s.parameters.binary_data_size'" % where)
        return self._binary(InputPart(name, datatype, shape, nbytes, start=self._at))

    def _binary(self, part: InputPart) -> InputPart:
        expected = count_of(part.shape) * part.datatype.itemsize
        if part.datatype is not DataType.BYTES and part.nbytes != expected:
            text = "unexpected total byte size %d for input '%s' ('binary_data_size'), expecting %d"
            raise InvalidRequest(text % (part.nbytes, shown(part.name), expected))
        self._at += part.nbytes
        if self._end is not None and self._at > self._end:
            text = "unexpected end of the body: expecting %d additional bytes for input '%s'%s"
            raise InvalidRequest(text % (self._at - self._end, shown(part.name), self._hint))
        return part


def _name(item: Dict[str, Any], where: str) -> str:
    if "name" not in item:
        raise InvalidRequest("'%s.name' is missing" % where)
    return fields.text(item["name"], "'%s.name'" % where)


def _datatype(item: Dict[str, Any], where: str) -> DataType:
    if "datatype" not in item:
        raise InvalidRequest("'%s.datatype' is missing" % where)
    value = fields.text(item["datatype"], "'%s.datatype'" % where)
    try:
        return DataType(value)
    except ValueError as exc:
        known = ", ".join(datatype.value for datatype in DataType)
        raise InvalidRequest("'%s.datatype' is '%s', it must be one of %s" % (where, shown(value), known)) from exc


def _outputs(document: Dict[str, Any], binary_default: bool) -> Tuple[OutputPart, ...]:
    items = fields.array(document.get("outputs") or [], "'outputs'")
    if len(items) > MAX_TENSORS:
        raise InvalidRequest("'outputs' must hold at most %d tensors, got %d" % (MAX_TENSORS, len(items)))
    parts: List[OutputPart] = []
    for number, item in enumerate(items):
        where = "outputs[%d]" % number
        part = _output(fields.mapping(item, "'%s'" % where), where, binary_default)
        if any(part.name == other.name for other in parts):
            raise InvalidRequest("output '%s' already exists in request ('%s.name')" % (shown(part.name), where))
        parts.append(part)
    return tuple(parts)


def _output(item: Dict[str, Any], where: str, binary_default: bool) -> OutputPart:
    name = _name(item, where)
    asked = fields.parameters(item, "'%s.parameters'" % where)
    if _SHARED_MEMORY in asked:
        raise Unsupported("'%s.parameters.%s': shared memory is disabled on this agent" % (where, _SHARED_MEMORY))
    binary = fields.flag(asked.get("binary_data", binary_default), "'%s.parameters.binary_data'" % where)
    best = fields.unsigned(asked.get("classification", 0), "'%s.parameters.classification'" % where)
    return OutputPart(name, binary, best)


def _custom_parameters(asked: Dict[str, Any]) -> Dict[str, Parameter]:
    """What the agent does not use itself; sequence keys are checked and kept."""
    kept: Dict[str, Parameter] = {}
    for key, value in asked.items():
        where = "'parameters.%s'" % shown(key)
        if key in ("priority", "timeout", "binary_data_output"):
            continue
        if key == "sequence_id":
            kept[key] = fields.text(value, where) if isinstance(value, str) else fields.unsigned(value, where)
        elif key in ("sequence_start", "sequence_end"):
            kept[key] = fields.flag(value, where)
        else:
            kept[key] = fields.custom(key, value, "parameter")
    return kept
