"""The file, what `conf.d` lays over it, and where a key came from."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple, Union

from edge_agent.config import toml
from edge_agent.errors import ConfigError

Location = Tuple[Union[str, int], ...]


class Layer(NamedTuple):
    """One file's tables."""

    label: str
    tables: Dict[str, Any]


def read_layers(path: Path) -> List[Layer]:
    """The file and `conf.d/*.toml` beside it in the order of their names; raises ConfigError with the faults of all of them."""
    faults: List[Tuple[str, str, str]] = []
    layers: List[Layer] = []
    folder = path.parent / "conf.d"
    for file in [path, *sorted(folder.glob("[!.]*.toml"))]:
        try:
            layers.append(Layer(str(file), toml.read(file)))
        except ConfigError as error:
            faults.extend(error.faults)
    if faults:
        raise ConfigError(faults)
    return layers


def merge(layers: Sequence[Layer]) -> Dict[str, Any]:
    """The last layer wins, key by key; tables of a list (cameras) are one when their `name` is."""
    merged: Dict[str, Any] = {}
    for layer in layers:
        merged = _over(merged, layer.tables)
    return merged


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> Dict[str, Any]:
    result = dict(below)
    for key, value in above.items():
        old = result.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = _over(old, value)
        elif _named(old) and _named(value):
            result[key] = _over_named(old, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _named(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and "name" in item for item in value)


def _over_named(below: Any, above: Any) -> List[Dict[str, Any]]:
    result: List[Dict[str, Any]] = list(below)
    known = {str(item["name"]): index for index, item in enumerate(below)}
    for item in above:
        index = known.get(str(item["name"]))
        if index is None:
            result.append(item)
        else:
            result[index] = _over(result[index], item)
    return result


def origin(layers: Sequence[Layer], tables: Any, location: Location) -> str:
    """The last file that says something about the key at `location` of the merged `tables`; empty when none does."""
    steps = [_named_step(tables, location, depth) for depth in range(len(location))]
    for layer in reversed(layers):
        if _holds(layer.tables, steps):
            return layer.label
    return ""


def _named_step(tables: Any, location: Location, depth: int) -> Union[str, int, Tuple[str]]:
    """A step of the location; that into a list of named tables as a tuple with the name."""
    item = find(tables, location[: depth + 1])
    step = location[depth]
    if isinstance(step, int) and isinstance(item, dict) and isinstance(item.get("name"), str):
        return (item["name"],)
    return step


def _holds(node: Any, steps: Sequence[Union[str, int, Tuple[str]]]) -> bool:
    for step in steps:
        if isinstance(step, tuple):
            node = next((item for item in node if isinstance(item, dict) and item.get("name") == step[0]), None)
        else:
            node = find(node, (step,))
        if node is None:
            return False
    return True


def find(node: Any, location: Location) -> Any:
    """What lies at a location; None when nothing does."""
    for step in location:
        if isinstance(node, dict) and isinstance(step, str):
            node = node.get(step)
        elif isinstance(node, list) and isinstance(step, int) and 0 <= step < len(node):
            node = node[step]
        else:
            return None
    return node
