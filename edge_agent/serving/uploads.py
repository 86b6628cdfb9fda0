"""Models that came with a load request instead of lying in a repository (kserve.md 1.10, `file:` parameters)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import AbstractSet, Dict, List, Mapping, Optional

from edge_agent import errors
from edge_agent.config.model_config import model_config_from_json
from edge_agent.config.section import MODEL_NAME_PATTERN
from edge_agent.serving.repository import ModelEntry, read_model


class Uploads:
    """Temporary folders. Each lives as long as a version that serves from it, and ends with the agent at the latest."""

    def __init__(self) -> None:
        self._folders: Dict[str, List[tempfile.TemporaryDirectory[str]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._folders

    def put(self, name: str, config: Optional[str], files: Mapping[str, bytes]) -> ModelEntry:
        """Writes the files of a model beside those it had, which stay until `sweep`.

        InvalidRequest without a config, or when a path leads out of the model's folder; ConfigError; EngineLoadError
        when the files cannot be written. Nothing is left of a refused one.
        """
        if not MODEL_NAME_PATTERN.match(name):
            raise errors.InvalidRequest("failed to load '%s', that is not a model name" % name)
        if config is None:
            raise errors.InvalidRequest("failed to load '%s', files need `config` beside them" % name)
        try:
            folder = tempfile.TemporaryDirectory(prefix="edge-agent-model-")
        except OSError as error:
            raise errors.EngineLoadError("failed to load '%s', its files cannot be written: %s" % (name, error)) from error
        try:
            entry = _written(Path(folder.name) / name, config, files)
        except (errors.EdgeAgentError, MemoryError):
            folder.cleanup()
            raise
        self._folders.setdefault(name, []).append(folder)
        return entry

    def sweep(self, name: str, used: AbstractSet[Path]) -> None:
        """Removes the folders of a model that are not among the `used` model directories."""
        kept = []
        for folder in self._folders.pop(name, []):
            if Path(folder.name) / name in used:
                kept.append(folder)
            else:
                folder.cleanup()
        if kept:
            self._folders[name] = kept

    def clear(self) -> None:
        """Removes all of them."""
        for name in list(self._folders):
            self.sweep(name, frozenset())


def _written(directory: Path, config: str, files: Mapping[str, bytes]) -> ModelEntry:
    name = directory.name
    try:
        for path, data in files.items():
            target = (directory / path).resolve()
            if directory.resolve() not in target.parents:
                raise errors.InvalidRequest("failed to load '%s', file:%s leads out of the model" % (name, path))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
    except OSError as error:
        raise errors.EngineLoadError("failed to load '%s', its files cannot be written: %s" % (name, error)) from error
    except ValueError as error:  # a NUL in a path
        raise errors.InvalidRequest("failed to load '%s', a file has no possible name: %s" % (name, error)) from error
    return read_model(directory.parent, directory, model_config_from_json(config, directory))
