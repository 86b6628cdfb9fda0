"""Typed reading of foreign JSON: every fault names the field it is in."""

from __future__ import annotations

import json
from typing import Any, Dict, List, NoReturn, Optional, Union

from edge_agent.domain.requests import Parameter
from edge_agent.errors import InvalidRequest

MAX_NESTING = 100
UINT64_MAX = 2**64 - 1

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "a string",
    bool: "a bool",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def shown(text: str) -> str:
    """A foreign name for an error text: printable and short."""
    cut = text if len(text) <= 64 else text[:61] + "..."
    return "".join(c if c.isprintable() else "?" for c in cut)


def kind(value: Any) -> str:
    """What a JSON value is, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def refuse(where: str, wanted: str, value: Any) -> NoReturn:
    """Raises InvalidRequest: `where` must be `wanted`."""
    got = str(value) if type(value) in (int, float, bool) else kind(value)
    raise InvalidRequest("%s must be %s, got %s" % (where, wanted, got))


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidRequest("%s is not a JSON value: send such numbers as binary tensor data" % name)


def load_object(raw: Union[bytes, memoryview], hint: str = "") -> Dict[str, Any]:
    """One JSON object out of UTF-8 bytes; InvalidRequest says what is wrong and where."""
    if not len(raw):
        raise InvalidRequest("the request body is empty, a JSON object is expected")
    try:
        document = json.loads(str(raw, "utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as exc:
        raise InvalidRequest("the request body is not UTF-8 at byte %d%s" % (exc.start, hint)) from exc
    except RecursionError as exc:
        raise InvalidRequest("the request body is nested deeper than %d levels" % MAX_NESTING) from exc
    except ValueError as exc:
        raise InvalidRequest("failed to parse the request JSON: %s%s" % (exc, hint)) from exc
    if not isinstance(document, dict):
        refuse("the request body", "a JSON object", document)
    return document


def check_nesting(value: Any, where: str, levels: int = MAX_NESTING) -> None:
    """InvalidRequest when lists and objects lie deeper in each other than `levels`."""
    layer: List[Any] = [value]
    for _ in range(levels):
        inner: List[Any] = []
        for item in layer:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        layer = [item for item in inner if isinstance(item, (dict, list))]
        if not layer:
            return
    raise InvalidRequest("%s is nested deeper than %d levels" % (where, MAX_NESTING))


def text(value: Any, where: str) -> str:
    """A string that UTF-8 can carry."""
    if not isinstance(value, str):
        refuse(where, "a string", value)
    try:
        value.encode()
    except UnicodeEncodeError as exc:
        raise InvalidRequest("%s holds half of a surrogate pair" % where) from exc
    return value


def flag(value: Any, where: str) -> bool:
    """A bool."""
    if not isinstance(value, bool):
        refuse(where, "a bool", value)
    return value


def unsigned(value: Any, where: str, largest: int = UINT64_MAX) -> int:
    """An integer from 0 to `largest`; a bool is none."""
    if type(value) is not int or not 0 <= value <= largest:
        refuse(where, "an unsigned integer", value)
    return int(value)


def array(value: Any, where: str) -> List[Any]:
    """A list."""
    if not isinstance(value, list):
        refuse(where, "a list", value)
    return value


def mapping(value: Any, where: str) -> Dict[str, Any]:
    """An object."""
    if not isinstance(value, dict):
        refuse(where, "an object", value)
    return value


def parameters(owner: Dict[str, Any], where: str) -> Dict[str, Any]:
    """The owner's `parameters` object, empty when absent."""
    found: Optional[Any] = owner.get("parameters")
    return {} if found is None else mapping(found, where)


def custom(key: str, value: Any, where: str) -> Parameter:
    """A parameter of the caller's own: string, int, bool or double; reserved names are refused."""
    if key == "headers" or key.startswith("triton_"):
        raise InvalidRequest("%s '%s' is a reserved parameter name" % (where, shown(key)))
    if type(value) not in (str, int, bool, float):
        refuse("%s '%s'" % (where, shown(key)), "a string, an integer, a bool or a double", value)
    result: Parameter = value
    return result
