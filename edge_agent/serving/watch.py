"""Looks at the model repositories: what is there, what has settled since the last look, and what is gone."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Dict, Iterable, List, NamedTuple, Optional, Sequence, Set, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.repository import Marks, ModelEntry, marked, scan
from edge_agent.serving.threads import in_thread

_log = logging.getLogger(__name__)


class Look(NamedTuple):
    """What a look at the repositories found."""

    steady: List[Tuple[ModelEntry, Marks]]  #: two looks in a row have seen the same: half-copied files do not count
    gone: List[str]  #: two looks in a row have not seen them: a folder may be renamed to and fro


class RepositoryWatch:
    """Remembers the last look. A repository that cannot be read is a fault that is shown, not an end."""

    def __init__(self, repositories: Sequence[Path], clock: Clock) -> None:
        self.fault: Optional[PartStatus] = None
        self._repositories = repositories
        self._clock = clock
        self._seen: Dict[str, Marks] = {}
        self._missing: Set[str] = set()

    async def scan(self) -> List[ModelEntry]:
        """Every model that is there, by name."""
        entries: Dict[str, ModelEntry] = {}
        fault = None
        for repository in self._repositories:
            try:
                found = await in_thread(scan, [repository])
            except (errors.ConfigError, OSError) as error:
                text = error.faults[0][1] if isinstance(error, errors.ConfigError) else str(error)
                fault = self._failed(text)
                if self.fault is None:
                    _log.error("the model repository cannot be read: %s", error, extra={"code": "model.repository"})
                continue
            for entry in found:
                entries.setdefault(entry.name, entry)
        if fault is None or self.fault is None:
            self.fault = fault
        return [entries[name] for name in sorted(entries)]

    async def look(self, known: Iterable[str]) -> Look:
        """Scans; `known` are the names that should be there. An unmounted disk changes nothing and takes nothing down."""
        entries = await self.scan()
        if self.fault is not None:
            self._missing.clear()
            return Look([], [])
        looked = await in_thread(lambda: [marked(entry) for entry in entries])
        steady = [(entry, marks) for entry, marks in looked if self._seen.get(entry.name) == marks]
        self._seen = {entry.name: marks for entry, marks in looked}
        missing = set(known).difference(self._seen)
        gone = sorted(missing & self._missing)
        self._missing = missing
        return Look(steady, gone)

    def died(self, error: BaseException) -> None:
        """Looking itself has failed; the next look that goes well ends this."""
        self.fault = self._failed("looking at it failed: %r" % error)

    def _failed(self, text: str) -> PartStatus:
        return PartStatus(State.FAILED, self._clock.now(), "model.repository", {"text": text})
