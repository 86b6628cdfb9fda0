"""From pydantic's errors to faults that an operator can mend: path, what is wrong, what to do."""

from __future__ import annotations

import difflib
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple, Type, Union

from pydantic import BaseModel, ValidationError
from typing_extensions import Annotated, get_args, get_origin

from edge_agent.config.layers import Location, find

Fault = Tuple[str, str, str]
#: keys whose values are not repeated in a message
_NEVER_SHOWN = ("source", "username", "password", "secret", "token", "key_file")

#: how pydantic names the key of a table where it is the key that is wrong
_KEY_STEP = "[key]"

_SHOULD_BE: Mapping[str, str] = {
    "string_type": "should be text",
    "int_type": "should be a whole number",
    "int_from_float": "should be a whole number",
    "float_type": "should be a number",
    "finite_number": "should be a finite number",
    "bool_type": "should be true or false",
    "tuple_type": "should be a list",
    "dict_type": "should be a table",
    "model_type": "should be a table",
    "path_type": "should be a path",
    "greater_than": "should be more than {gt}",
    "greater_than_equal": "should be at least {ge}",
    "less_than": "should be less than {lt}",
    "less_than_equal": "should be at most {le}",
    "literal_error": "should be {expected}",
    "string_too_long": "should have at most {max_length} characters",
    "string_too_short": "should not be empty",
    "too_long": "should have at most {max_length} entries",
    "too_short": "should have at least {min_length} entry",
}


class Wrong(NamedTuple):
    """One fault with the location of its key, before it is put in words."""

    location: Location
    kind: str
    what: str
    cure: str


def wrongs(error: ValidationError, root: Type[BaseModel], tables: Any) -> List[Wrong]:
    """Every fault of a validation, one for a key."""
    result: List[Wrong] = []
    seen: Set[Location] = set()
    for detail in error.errors(include_url=False):
        location, holder = _resolve(root, detail["loc"])
        if location not in seen:
            seen.add(location)
            result.append(_wrong(dict(detail), location, holder, tables))
    return result


def _wrong(detail: Dict[str, Any], location: Location, holder: Optional[Type[BaseModel]], tables: Any) -> Wrong:
    kind = detail["type"]
    key = str(location[-1]) if location else ""
    if kind == "extra_forbidden":
        return Wrong(location, kind, "unknown key", _nearest(key, holder))
    field = holder.model_fields.get(key) if holder is not None else None
    described = "%s: %s" % (key, field.description) if field is not None and field.description else ""
    if kind == "missing":
        return Wrong(location, kind, "is missing", "add %s" % described)
    if kind == "value_error":
        renamed = "choose another name" if detail["loc"][-1:] == (_KEY_STEP,) else ""
        return Wrong(location, kind, str(detail["ctx"]["error"]), described or renamed)
    what = _SHOULD_BE.get(kind, detail["msg"]).format_map(detail.get("ctx", {}))
    return Wrong(location, kind, what + _instead(location, tables), described)


def _instead(location: Location, tables: Any) -> str:
    """`, not "abc"`; empty for what must not be shown or would not fit."""
    value = find(tables, location)
    if any(word in str(step) for step in location for word in _NEVER_SHOWN) or not isinstance(value, (str, int, float)):
        return ""
    shown = str(value).lower() if isinstance(value, bool) else ('"%s"' % value if isinstance(value, str) else repr(value))
    return ", not %s" % shown if len(shown) <= 60 and shown.isprintable() else ""


def _nearest(key: str, holder: Optional[Type[BaseModel]]) -> str:
    known = list(holder.model_fields) if holder is not None else []
    close = difflib.get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.6)
    if close:
        return "did you mean %s?" % close[0]
    return "the keys here are " + ", ".join(known) if known else "remove it"


def _resolve(root: Type[BaseModel], loc: Sequence[Union[str, int]]) -> Tuple[Location, Optional[Type[BaseModel]]]:
    """The location without pydantic's own steps (members of unions and the like), and the table that holds its last key."""
    location: List[Union[str, int]] = []
    holder: Optional[Type[BaseModel]] = None
    types: List[Any] = [root]
    for step in loc:
        if step == _KEY_STEP:
            break
        models = [item for item in types if isinstance(item, type) and issubclass(item, BaseModel)]
        below = [found for item in types for found in _below(item, step)]
        if not below and not models:
            break
        location.append(step)
        holder = models[0] if models else None
        types = below
    return tuple(location), holder


def _below(kind: Any, step: Union[str, int]) -> Iterator[Any]:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field = kind.model_fields.get(str(step))
        if field is not None:
            yield from members(field.annotation)
    elif get_origin(kind) is tuple and isinstance(step, int):
        yield from members(get_args(kind)[0])
    elif get_origin(kind) is dict:
        yield from members(get_args(kind)[1])


def members(kind: Any) -> Iterator[Any]:
    """The type, or those that a union or an annotation is made of."""
    if get_origin(kind) is Union:
        for member in get_args(kind):
            yield from members(member)
    elif get_origin(kind) is Annotated:
        yield from members(get_args(kind)[0])
    else:
        yield kind


def shown(location: Location, tables: Any) -> str:
    """`cameras.dock.max_fps`, `input[0].dims`: a location in words, tables of a list by their name."""
    text = ""
    for depth, step in enumerate(location):
        if isinstance(step, str):
            text += "." + step if text else step
            continue
        item = find(tables, location[: depth + 1])
        name = item.get("name") if isinstance(item, dict) else None
        text += ".%s" % name if isinstance(name, str) and name.isprintable() and name else "[%d]" % step
    return text
