"""From protobuf's two forms of ModelConfig, text and JSON, to the tables that TOML would give."""

from __future__ import annotations

import re
import typing
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple, Type

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import Literal, get_args, get_origin

from edge_agent.config.faults import Wrong, members
from edge_agent.config.layers import Location
from edge_agent.config.pbtxt import Message, Word

_TRUE, _FALSE = ("true", "True", "t"), ("false", "False", "f")
_INTEGER = re.compile(r"-?[0-9]{1,20}\Z")
_LITERALS = (typing.Literal, Literal)  # two different things before Python 3.10.1
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class Tables(NamedTuple):
    """What a form says as tables, and the faults that only that form can have."""

    tables: Dict[str, Any]
    wrongs: List[Wrong]


def from_text(message: Message, schema: Type[BaseModel]) -> Tables:
    """The tables of a message of the text format."""
    wrongs: List[Wrong] = []
    return Tables(_Text(wrongs).table(message, schema, ()), wrongs)


def from_json(document: Mapping[str, Any], schema: Type[BaseModel]) -> Tables:
    """The tables of protobuf's JSON: names in either spelling, 64-bit numbers as text too, enumerations by number too."""
    return Tables(_json_table(document, schema), [])


class _Text:
    """Every field is a list in the text format; the schema says which are single, lists or maps."""

    def __init__(self, wrongs: List[Wrong]) -> None:
        self._wrongs = wrongs

    def table(self, message: Message, schema: Type[BaseModel], at: Location) -> Dict[str, Any]:
        fields = fields_of(schema)
        return {
            name: self._field(fields[name], values, (*at, name)) if name in fields else _plain(values)
            for name, values in message.items()
        }

    def _field(self, field: FieldInfo, values: List[Any], at: Location) -> Any:
        kinds = list(members(field.annotation))
        for kind in kinds:
            if get_origin(kind) is tuple:
                inner = list(members(get_args(kind)[0]))
                return [self._value(inner, value, (*at, index)) for index, value in enumerate(values)]
            if get_origin(kind) is dict:
                return self._map(kind, values, at)
        if len(values) != 1:
            what = "is given %d times" % len(values) if values else "should be one value, not a list"
            self._wrongs.append(Wrong(at, "", what, "keep one of them" if values else "write it without brackets"))
        return self._value(kinds, values[-1], at) if values else None

    def _map(self, kind: Any, entries: List[Any], at: Location) -> Any:
        """`{ key: ... value: ... }`, one for each entry."""
        inner = list(members(get_args(kind)[1]))
        result: Dict[str, Any] = {}
        for entry in entries:
            if not isinstance(entry, dict) or not set(entry) <= {"key", "value"} or any(len(v) != 1 for v in entry.values()):
                self._wrongs.append(Wrong(at, "", "an entry should be { key: ... value: ... }", "write it so"))
                continue
            key = str(entry.get("key", [""])[0])
            if key in result:
                self._wrongs.append(Wrong((*at, key), "", "is given twice", "keep one of them"))
            empty: Any = {} if any(_is_table(item) for item in inner) else ""
            result[key] = self._value(inner, entry.get("value", [empty])[0], (*at, key))
        return result

    def _value(self, kinds: List[Any], value: Any, at: Location) -> Any:
        if isinstance(value, dict):
            schema = next((kind for kind in kinds if _is_table(kind)), None)
            return _plain([value]) if schema is None else self.table(value, schema, at)
        if bool in kinds:
            return _truth(value)
        if isinstance(value, Word):
            if float in kinds and value.lower() in ("inf", "infinity", "nan"):
                return float(value)
            if kinds == [str]:
                self._wrongs.append(Wrong(at, "", "should be text in quotes, not %s" % value, 'write "%s"' % value))
            return str(value)
        return _enumerated(kinds, value)


def _truth(value: Any) -> Any:
    """A truth from one of its words or from 1 and 0; anything else as it is."""
    if (isinstance(value, Word) and value in _TRUE) or (type(value) is int and value == 1):
        return True
    if (isinstance(value, Word) and value in _FALSE) or (type(value) is int and value == 0):
        return False
    return value


def _json_table(document: Mapping[str, Any], schema: Type[BaseModel]) -> Dict[str, Any]:
    fields = fields_of(schema)
    table: Dict[str, Any] = {}
    for key, value in document.items():
        snake = _CAPITAL.sub(r"_\1", key).lower()
        name = snake if key not in fields and snake in fields else key
        if value is not None:
            table[name] = _json_value(list(members(fields[name].annotation)), value) if name in fields else value
    return table


def _json_value(kinds: List[Any], value: Any) -> Any:
    for kind in kinds:
        if get_origin(kind) is tuple and isinstance(value, list):
            return [_json_value(list(members(get_args(kind)[0])), item) for item in value]
        if get_origin(kind) is dict and isinstance(value, dict):
            return {key: _json_value(list(members(get_args(kind)[1])), item) for key, item in value.items()}
        if _is_table(kind) and isinstance(value, dict):
            return _json_table(value, kind)
    if int in kinds and str not in kinds and isinstance(value, str) and _INTEGER.match(value):
        return int(value)
    return _enumerated(kinds, value)


def fields_of(schema: Type[BaseModel]) -> Dict[str, FieldInfo]:
    """The fields by the names that a file gives them."""
    return {field.alias or name: field for name, field in schema.model_fields.items()}


def _enumerated(kinds: List[Any], value: Any) -> Any:
    """The name of an enumeration's value that is given by its number."""
    names: Tuple[Any, ...] = next((get_args(kind) for kind in kinds if get_origin(kind) in _LITERALS), ())
    if int not in kinds and type(value) is int and 0 <= value < len(names):
        return names[value]
    return value


def _is_table(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _plain(values: List[Any]) -> Any:
    """Values of a field that the schema does not know."""
    plain = list(_plain_each(values))
    return plain[0] if len(plain) == 1 else plain


def _plain_each(values: List[Any]) -> Iterator[Any]:
    for value in values:
        if isinstance(value, dict):
            yield {name: _plain(inner) for name, inner in value.items()}
        else:
            yield str(value) if isinstance(value, Word) else value
