"""What `edge-agent check` finds in the files of models: what would not load, or could not be built or judged."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import Iterator, Sequence, Tuple

from edge_agent.cli.check_build import build_faults, build_notes
from edge_agent.cli.check_golden import golden_faults, golden_notes
from edge_agent.engines.plans.onnx_files import external_files
from edge_agent.engines.plans.regular_file import open_regular
from edge_agent.errors import EngineLoadError
from edge_agent.serving.repository import ModelEntry

Fault = Tuple[str, str, str]

_PLAN = b"ftrt"


def model_faults(entries: Sequence[ModelEntry]) -> Iterator[Fault]:
    """Path of the configuration, what is wrong, its cure.

    Golden files are read through, ONNX files where int8 has no calibration cache.
    """
    for entry in entries:
        yield from _model_files(entry)
        yield from golden_faults(entry)
        yield from build_faults(entry)


def model_notes(entries: Sequence[ModelEntry]) -> Iterator[str]:
    """What may be a fault, and what could not be looked at."""
    for entry in entries:
        for version in entry.versions:
            plan = version.plan
            if plan is not None and version.onnx is None and not _is_empty(plan) and not _looks_like_a_plan(plan):
                text = "models.%s.%d: %s does not look like a TensorRT plan; only TensorRT can tell"
                yield text % (entry.name, version.number, plan)
        yield from golden_notes(entry)
        yield from build_notes(entry)


def _looks_like_a_plan(file: Path) -> bool:
    """By how plans of TensorRT 8 to 10 begin, which nobody has promised. What cannot be read is not said of it."""
    try:
        with open_regular(file) as opened:
            return opened.read(len(_PLAN)) == _PLAN
    except OSError:
        return True


def _model_files(entry: ModelEntry) -> Iterator[Fault]:
    for version in entry.versions:
        path = "models.%s.%d" % (entry.name, version.number)
        for file in {version.path, version.onnx or version.path}:
            if file.suffix == ".onnx":
                try:
                    external_files(file)
                except EngineLoadError as error:
                    yield path, str(error), "put the whole model there, its data beside it"
            elif file.suffix == ".plan" and version.onnx is None and _is_empty(file):  # beside a model it is not needed
                yield path, "%s is empty, or no file" % file, "put a good copy in its place, or model.onnx beside it"


def _is_empty(file: Path) -> bool:
    with contextlib.suppress(OSError):
        found = os.stat(str(file))
        return not (stat.S_ISREG(found.st_mode) and found.st_size)
    return True
