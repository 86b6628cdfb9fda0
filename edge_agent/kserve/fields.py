"""Typed reading of foreign JSON: every fault names the field it is in."""

from __future__ import annotations

from typing import Any, Dict, List, NoReturn, Optional, Union

from edge_agent.domain.requests import Parameter
from edge_agent.engine_host import json_tensors
from edge_agent.engine_host.json_tensors import MAX_NESTING, shown
from edge_agent.errors import InvalidRequest

__all__ = [
    "MAX_NESTING", "UINT64_MAX", "array", "check_nesting", "custom", "flag", "load_object", "mapping", "parameters",
    "refuse", "shown", "text", "unsigned",
]  # fmt: skip

UINT64_MAX = 2**64 - 1


def refuse(where: str, wanted: str, value: Any) -> NoReturn:
    """Raises InvalidRequest: `where` must be `wanted`."""
    raise InvalidRequest("%s must be %s, got %s" % (where, wanted, json_tensors.got(value)))


def load_object(raw: Union[bytes, memoryview], hint: str = "") -> Dict[str, Any]:
    """One JSON object out of UTF-8 bytes; InvalidRequest says what is wrong and where."""
    try:
        return json_tensors.load_object(raw, hint)
    except json_tensors.BadJson as exc:
        raise InvalidRequest(str(exc)) from exc


def check_nesting(value: Any, where: str, levels: int = MAX_NESTING) -> None:
    """InvalidRequest when lists and objects lie deeper in each other than `levels`."""
    try:
        json_tensors.check_nesting(value, where, levels)
    except json_tensors.BadJson as exc:
        raise InvalidRequest(str(exc)) from exc


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
