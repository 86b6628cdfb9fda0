"""Which files an ONNX model consists of: it may keep its weights beside it, and says so deep within."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Set, Tuple

from edge_agent import errors
from edge_agent.engines.plans.regular_file import cannot_read, open_regular
from edge_agent.engines.plans.wire_format import Field, Malformed, WireFile

_MAX_DEPTH = 100  #: as protobuf's own readers have it
_MAX_FILES = 4096
_MAX_LOCATION = 4096  #: bytes
_MAX_KEY = 64

#: message -> field number -> message within, for all ways to a tensor
_WITHIN: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
}
_GRAPH, _EXTERNAL_DATA, _DATA_LOCATION, _EXTERNAL = 7, 13, 14, 1
_KEY, _VALUE = 1, 2


def external_files(path: Path) -> Tuple[Path, ...]:
    """The files with the model's external data, sorted. Reads no weights; memory does not grow with the model.

    Raises:
        EngineLoadError: it is no ONNX model, cannot be read, or names a file that is missing or lies outside its folder.
    """
    try:
        with open_regular(path) as file:
            locations = _Walk(WireFile(file, os.fstat(file.fileno()).st_size)).locations()
    except Malformed as exc:
        raise errors.EngineLoadError("%s is no whole ONNX model: %s; put a good copy in its place" % (path, exc)) from exc
    except OSError as exc:
        raise cannot_read(path, exc) from exc
    return tuple(_resolve(path, location) for location in sorted(locations))


class _Walk:
    """Goes through everything that can hold a tensor."""

    def __init__(self, wire: WireFile) -> None:
        self._wire = wire
        self._locations: Set[str] = set()

    def locations(self) -> Set[str]:
        """Where the tensors say that their data is."""
        found = False
        for field in self._wire.fields(0, self._wire.size):
            found = found or (field.number == _GRAPH and field.is_bytes)
            self._enter(field, "model", 1)
        if not found:
            raise Malformed("it has no graph")
        return self._locations

    def _enter(self, field: Field, kind: str, depth: int) -> None:
        within = _WITHIN[kind].get(field.number)
        if within is None:
            return
        if not field.is_bytes:
            raise Malformed("a number where a %s should be, at byte %d" % (within, field.start))
        if depth > _MAX_DEPTH:
            raise Malformed("it is nested over %d deep" % _MAX_DEPTH)
        if within == "tensor":
            self._tensor(field)
            return
        for inner in self._wire.fields(field.start, field.end):
            self._enter(inner, within, depth + 1)

    def _tensor(self, tensor: Field) -> None:
        external = False
        location: Optional[str] = None
        for field in self._wire.fields(tensor.start, tensor.end):
            if field.number == _DATA_LOCATION:
                external = field.value == _EXTERNAL
            elif field.number == _EXTERNAL_DATA and field.is_bytes:
                location = self._entry(field).get("location", location)
        if not external:
            return
        if location is None:
            raise Malformed("a tensor with external data at byte %d does not say where" % tensor.start)
        self._locations.add(location)
        if len(self._locations) > _MAX_FILES:
            raise Malformed("its data is in over %d files" % _MAX_FILES)

    def _entry(self, entry: Field) -> Dict[str, str]:
        """One `key: value`; only the location is of interest."""
        said: List[str] = ["", ""]
        for field in self._wire.fields(entry.start, entry.end):
            if field.number in (_KEY, _VALUE):
                text = self._wire.read(field, _MAX_KEY if field.number == _KEY else _MAX_LOCATION)
                said[field.number - 1] = _text(text)
        return {said[0]: said[1]}


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        raise Malformed("a text is not UTF-8") from exc


def _resolve(model: Path, location: str) -> Path:
    """The file that a location means; it may not lead out of the model's folder, by symbolic links neither."""
    folder = model.parent
    path = folder / location
    real_folder, real = os.path.realpath(str(folder)), "" if "\0" in location else os.path.realpath(str(path))
    if not location or os.path.isabs(location) or os.path.commonpath([real_folder, real or "/"]) != real_folder:
        raise errors.EngineLoadError(
            "%s keeps data in %r, which is not in the model's folder; export it with its data beside it" % (model, location)
        )
    try:
        mode = os.stat(real).st_mode
    except OSError as exc:
        raise cannot_read(path, exc, "%s keeps its data beside it: " % model) from exc
    if not stat.S_ISREG(mode):
        raise errors.EngineLoadError("%s keeps data in %s, which is not a file" % (model, path))
    return path
