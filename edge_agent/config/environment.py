"""`EDGE_AGENT__SECTION__KEY`: every key of the file as an environment variable."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from edge_agent.config import toml
from edge_agent.config.layers import Location

PREFIX = "EDGE_AGENT__"


class Override(NamedTuple):
    """A variable and where its value went."""

    variable: str
    text: str
    location: Location


def apply(tables: Dict[str, Any], environ: Mapping[str, str]) -> Tuple[List[Override], List[Tuple[str, str, str]]]:
    """Put the variables into `tables`, in place; answers what was put where, and the faults.

    A value is read as TOML, and as text when it is none. An empty one counts as not set ('""' is the empty text). In a list of
    tables the step is an index or the table's name, as in EDGE_AGENT__CAMERAS__DOCK__MAX_FPS.
    """
    overrides: List[Override] = []
    faults: List[Tuple[str, str, str]] = []
    for variable in sorted(name for name in environ if name.startswith(PREFIX)):
        text = environ[variable]
        if not text:
            continue
        location = _put(tables, variable[len(PREFIX) :].split("__"), _value(text))
        if location is None:
            faults.append((variable, "does not name a key", "the form is EDGE_AGENT__SECTION__KEY"))
        else:
            overrides.append(Override(variable, text, location))
    return overrides, faults


def as_text(tables: Dict[str, Any], override: Override) -> None:
    """Take the variable's value as text after all: its key holds text, though it reads as a number."""
    node: Any = tables
    for step in override.location[:-1]:
        node = node[step]
    node[override.location[-1]] = override.text


def _value(text: str) -> Any:
    try:
        tables = toml.parse("value = " + text)
    except (toml.TOMLDecodeError, RecursionError):
        return text
    return tables["value"] if set(tables) == {"value"} else text


def _put(tables: Dict[str, Any], parts: Sequence[str], value: Any) -> Optional[Location]:
    node: Any = tables
    location: List[Union[str, int]] = []
    for depth, part in enumerate(parts):
        step = _step(node, part)
        if step is None:
            return None
        location.append(step)
        if depth == len(parts) - 1:
            node[step] = value
        else:
            node = node.setdefault(step, {}) if isinstance(node, dict) else node[step]
    return tuple(location)


def _step(node: Any, part: str) -> Union[str, int, None]:
    if isinstance(node, dict) and part:
        return next((key for key in node if _same(key, part)), part.lower())
    if isinstance(node, list):
        for index, item in enumerate(node):
            if part == str(index) or (isinstance(item, dict) and _same(str(item.get("name", "")), part)):
                return index
    return None


def _same(key: str, part: str) -> bool:
    """A variable's name has no `-` and no certain case."""
    return key.lower().replace("-", "_") == part.lower().replace("-", "_")
