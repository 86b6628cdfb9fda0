"""`edge-agent check --repository`: one line a model, whether it is served as it lies there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Iterator, List, Mapping, Sequence

from edge_agent.config import platforms
from edge_agent.serving.repository import ModelEntry, scan


def check_repository(repository: Path) -> int:
    """Print the lines; 0 where every model serves, else 1. Raises ConfigError where the folder cannot be read.

    Only configurations and names of files are looked at: nothing is loaded.
    """
    entries = {entry.name: entry for entry in scan([repository])}
    refusals = {name: list(_refusals(entry, entries)) for name, entry in entries.items()}
    for name, entry in entries.items():
        print("%s: %s" % (name, _verdict(entry, refusals[name])))
    if not entries:
        print("%s: no model here: each is a folder NAME/ with versions 1/, 2/, ... in it" % repository, file=sys.stderr)
    return 1 if not entries or any(refusals.values()) else 0


def _verdict(entry: ModelEntry, refusals: Sequence[str]) -> str:
    if refusals:
        return "no: " + "; ".join(refusals)
    if entry.config.ignored:
        return "serves, ignoring " + ", ".join(entry.config.ignored)
    return "serves unchanged"


def _refusals(entry: ModelEntry, entries: Mapping[str, ModelEntry]) -> Iterator[str]:
    if entry.fault:
        yield from entry.fault.splitlines()
    if entry.fault and not entry.config.refused:
        yield from _foreign_files(entry.directory)
    yield from unmet_steps(entry, entries)


def unmet_steps(entry: ModelEntry, entries: Mapping[str, ModelEntry]) -> Iterator[str]:
    """Models that an ensemble names and cannot have; nothing for other models."""
    return _steps(entry, entries, [entry.name])


def _steps(entry: ModelEntry, entries: Mapping[str, ModelEntry], way: List[str]) -> Iterator[str]:
    scheduling = entry.config.ensemble_scheduling
    for step in scheduling.step if scheduling is not None else ():
        below, wanted = entries.get(step.model_name), step.model_version
        if step.model_name in way:
            yield "its steps lead back to %s" % step.model_name
        elif below is None:
            yield "there is no model %s, which it needs" % step.model_name
        elif below.fault:
            yield "the model %s, which it needs, is not served" % step.model_name
        elif wanted != -1 and wanted not in {version.number for version in below.versions}:
            yield "version %d of %s, which it needs, is not served" % (wanted, step.model_name)
        else:
            yield from _steps(below, entries, [*way, step.model_name])


def _foreign_files(directory: Path) -> Iterator[str]:
    """Models of other frameworks where the model file should be."""
    names = sorted({path.name for path in directory.glob("[1-9]*/*")}) if directory.is_dir() else []
    yield from filter(None, map(platforms.foreign_file, names))
