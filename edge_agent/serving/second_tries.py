"""Versions that their host could not load again when it came back, for a reason that may pass: they are loaded again."""

from __future__ import annotations

import asyncio
import contextlib
from itertools import chain, repeat
from typing import Awaitable, Callable, Optional, Set

from edge_agent import errors
from edge_agent.domain.status import State
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.servable import Servable
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.tasks import Tasks

_PAUSES_S = (1.0, 5.0, 15.0, 60.0, 300.0)  #: the last one again and again
_CERTAIN = ("model.stopped", "model.config_rejected")  #: would come to the same


class SecondTries:
    """A task for each version that was lost, until it is up, another one, or given up for good."""

    def __init__(self, catalogue: Catalogue, again: Callable[[str, str], Awaitable[None]]) -> None:
        """`again` loads one version anew; a failure is told by it."""
        self._catalogue = catalogue
        self._again = again
        self._trying: Set[str] = set()
        self._tasks = Tasks()

    async def stop(self) -> None:
        """Tries nothing any more."""
        await self._tasks.stop()

    def lost(self, version: ServedVersion) -> None:
        """Its host came back and could not load it."""
        if version.label not in self._trying:
            self._trying.add(version.label)
            self._tasks.spawn(self._try(version.name, version.version, version.label), "second:" + version.label)

    async def _try(self, name: str, number: str, label: str) -> None:
        try:
            for pause_s in chain(_PAUSES_S, repeat(_PAUSES_S[-1])):
                await asyncio.sleep(pause_s)
                version = self._loaded(name, number)
                if version is None or version.ready or _is_certain(version):
                    return
                if version.part.state is State.FAILED and version.part.code != "model.host_down":
                    with contextlib.suppress(errors.EdgeAgentError):
                        await self._again(name, number)
        finally:
            self._trying.discard(label)

    def _loaded(self, name: str, number: str) -> Optional[Servable]:
        model = self._catalogue.get(name)
        return None if model is None else model.loaded(number)


def _is_certain(version: Servable) -> bool:
    """Whether it stays down until somebody says otherwise. A plan alone that was changed is nobody's but the operator's."""
    code = version.part.code
    alone = isinstance(version, ServedVersion) and version.entry.onnx is None
    return code in _CERTAIN or (code == "plan.changed" and alone)
