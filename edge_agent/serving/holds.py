"""Models that an operator has taken down: they stay down until they are loaded again, over restarts."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import AbstractSet, Optional, Set

from edge_agent.config.durable import write_durably

_log = logging.getLogger(__name__)

FILE_NAME = "held-models.json"


class Holds:
    """Names in one small file; without a folder they last as long as the agent runs."""

    def __init__(self, state_dir: Optional[Path]) -> None:
        self._path = None if state_dir is None else state_dir / FILE_NAME
        self._names: Set[str] = set()
        self._changing = threading.Lock()  # callers are threads of a pool

    def load(self) -> None:
        """Reads the file; one that cannot be read holds nothing, and says so."""
        if self._path is None or not self._path.exists():
            return
        try:
            names = json.loads(self._path.read_text("utf-8"))
            self._names = {str(name) for name in names}
        except (OSError, ValueError, TypeError) as error:
            _log.error("%s cannot be read, no model is held down: %s", self._path, error, extra={"code": "model.holds_lost"})

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def hold(self, name: str) -> None:
        """Down from now on. OSError when that cannot be kept over a restart; then it is not held."""
        with self._changing:
            self._save(self._names | {name})

    def release(self, name: str) -> None:
        """Not any more. OSError when that cannot be kept over a restart; then it stays held."""
        with self._changing:
            if name in self._names:
                self._save(self._names - {name})

    def _save(self, names: AbstractSet[str]) -> None:
        """Saved first: what is held here is what the next start will hold."""
        if self._path is not None:
            write_durably(self._path, json.dumps(sorted(names)).encode())
        self._names = set(names)
