"""Models that came with a load request instead of lying in a repository (kserve.md 1.10, `file:` parameters)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Dict, Mapping, Optional

from edge_agent import errors
from edge_agent.config.model_config import model_config_from_json
from edge_agent.serving.repository import ModelEntry, read_model


class Uploads:
    """Temporary folders, one a model; they end with the agent."""

    def __init__(self) -> None:
        self._folders: Dict[str, tempfile.TemporaryDirectory[str]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._folders

    def put(self, name: str, config: Optional[str], files: Mapping[str, bytes]) -> ModelEntry:
        """Writes the files of a model; InvalidRequest without a config, or when a path leads out of the model's folder."""
        if config is None:
            raise errors.InvalidRequest("failed to load '%s', files need `config` beside them" % name)
        folder = tempfile.TemporaryDirectory(prefix="edge-agent-model-")
        directory = Path(folder.name) / name
        for path, data in files.items():
            target = (directory / path).resolve()
            if directory.resolve() not in target.parents:
                folder.cleanup()
                raise errors.InvalidRequest("failed to load '%s', file:%s leads out of the model" % (name, path))
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)
        self._folders[name] = folder
        return read_model(directory.parent, directory, model_config_from_json(config, directory))

    def clear(self) -> None:
        """Removes all of them."""
        for folder in self._folders.values():
            folder.cleanup()
        self._folders.clear()
