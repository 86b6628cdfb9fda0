"""Looks again for a GPU that was not there, or had no room: device nodes come late at boot, and memory is short then."""

from __future__ import annotations

import asyncio
from typing import Awaitable, Callable, Dict, Sequence

from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.healing.places import Places
from edge_agent.serving.loading import Loader
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.tasks import Tasks

_MOST = 1024  #: versions that are remembered


class LateGpu:
    """A few times for each version, later each time; then at its next load."""

    def __init__(
        self,
        loader: Loader,
        places: Places,
        catalogue: Catalogue,
        again: Callable[[ServedVersion], Awaitable[None]],
        pauses_s: Sequence[float],
    ) -> None:
        self._loader = loader
        self._places = places
        self._catalogue = catalogue
        self._again = again
        self._pauses_s = pauses_s
        self._looks: Dict[str, int] = {}  #: by label
        self._tasks = Tasks()

    async def stop(self) -> None:
        """Looks no more."""
        await self._tasks.stop()

    def expect(self, version: ServedVersion) -> None:
        """The version should run on it."""
        if not version.aside and self._looks.get(version.label, 0) < len(self._pauses_s):
            self._tasks.spawn(self._look(version), "late-gpu:" + version.label)

    def came(self, version: ServedVersion) -> None:
        """The version runs on it."""
        self._looks.pop(version.label, None)

    async def _look(self, version: ServedVersion) -> None:
        while self._looks.get(version.label, 0) < len(self._pauses_s):
            number = self._looks.get(version.label, 0)
            await asyncio.sleep(self._pauses_s[number])
            if not self.serves(version):
                return
            self._looks[version.label] = number + 1
            while len(self._looks) > _MOST:  # of versions that went: who is forgotten is only looked for again
                del self._looks[next(iter(self._looks))]
            if (await self._loader.facts(self._places.gpu(version.config))).usable:
                await self._again(version)
                return
            await self._loader.end_idle_hosts()

    def serves(self, version: ServedVersion) -> bool:
        """Whether it is still the one that is loaded."""
        model = self._catalogue.get(version.name)
        return model is not None and model.loaded(version.version) is version
