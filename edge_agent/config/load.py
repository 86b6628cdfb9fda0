"""From the file, `conf.d` and the environment to an AgentConfig, or to every fault at once."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from pydantic import ValidationError

from edge_agent.config import environment, later
from edge_agent.config.faults import Fault, Wrong, shown, wrongs
from edge_agent.config.layers import Layer, Location, merge, origin, read_layers
from edge_agent.config.root import AgentConfig
from edge_agent.errors import ConfigError

_TEXT_KINDS = ("string_type", "path_type", "literal_error", "value_error", "model_attributes_type")


def load_config(path: Path, environ: Mapping[str, str]) -> AgentConfig:
    """The checked configuration; raises ConfigError with all faults, each with its key's path and a cure.

    Paths in it count from the file's folder. `environ` gives EDGE_AGENT__SECTION__KEY and CREDENTIALS_DIRECTORY.
    """
    return build(read_layers(path), path, environ)


def build(layers: Sequence[Layer], path: Path, environ: Mapping[str, str]) -> AgentConfig:
    """The configuration that these layers make, as if read from `path`."""
    merged = merge(layers)
    tables = copy.deepcopy(merged)
    overrides, faults = environment.apply(tables, environ)
    whole = copy.deepcopy(tables)
    taken = later.take_out(tables)
    found = [Wrong(location, "later", what, cure) for location, what, cure in taken.faults]
    config, more = _validated(tables, overrides, _context(path, environ))
    found.extend(more)
    if found or faults or config is None:
        raise ConfigError(faults + [_worded(wrong, whole, layers, overrides) for wrong in found])
    config._settings = merged
    config._path = path.absolute()
    config._notes = tuple("%s: %s" % (shown(location, whole), text) for location, text in taken.notes)
    return config


def _context(path: Path, environ: Mapping[str, str]) -> Dict[str, Any]:
    context: Dict[str, Any] = {"folder": path.absolute().parent}
    if environ.get("CREDENTIALS_DIRECTORY"):
        context["credentials"] = Path(environ["CREDENTIALS_DIRECTORY"])
    return context


def _validated(
    tables: Dict[str, Any], overrides: Sequence[environment.Override], context: Dict[str, Any]
) -> Tuple[AgentConfig | None, List[Wrong]]:
    """The configuration or its faults. JSON's strict mode takes no text for a number and no number for a truth."""
    for last in (False, True):
        try:
            return AgentConfig.model_validate_json(json.dumps(tables, default=str), strict=True, context=context), []
        except ValidationError as error:
            found = wrongs(error, AgentConfig, tables)
        if last or not _numbers_to_text(tables, overrides, {wrong.location for wrong in found if wrong.kind in _TEXT_KINDS}):
            break
    return None, found


def _numbers_to_text(tables: Dict[str, Any], overrides: Sequence[environment.Override], locations: set[Location]) -> bool:
    """Variables such as an id of digits read as numbers where text is wanted."""
    again = [override for override in overrides if override.location in locations]
    for override in again:
        environment.as_text(tables, override)
    return bool(again)


def _worded(wrong: Wrong, tables: Any, layers: Sequence[Layer], overrides: Sequence[environment.Override]) -> Fault:
    """The fault in words; with the place where the key is set when that is not the main file."""
    variables = [override.variable for override in overrides if override.location == wrong.location]
    place = variables[0] if variables else origin(layers, tables, wrong.location)
    known = not variables and (not layers or place in ("", layers[0].label))
    return (
        shown(wrong.location, tables) or "the whole file",
        wrong.what if known else "%s (set in %s)" % (wrong.what, place),
        wrong.cure,
    )
