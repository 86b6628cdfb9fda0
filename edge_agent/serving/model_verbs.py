"""What is asked of models by hand: which of them are up, and which of their versions."""

from __future__ import annotations

from typing import Mapping, Optional, Set, Tuple

from edge_agent.serving.control import Control
from edge_agent.serving.promotion.lineup import Lineup


class ModelVerbs:
    """A part of Serving. Each is done when it returns, and truthful."""

    _control: Control
    _lineup: Lineup

    async def load_model(self, name: str, config: Optional[str] = None, files: Optional[Mapping[str, bytes]] = None) -> None:
        """Triton's load: in explicit mode only (ControlRefused). Raises whenever the model is not up afterwards."""
        self._control.check_explicit()
        await self._control.load(name, config, files)

    async def unload_model(self, name: str, unload_dependents: bool = False) -> None:
        """Triton's unload: in explicit mode only (ControlRefused). Dependents are the models that an ensemble calls."""
        self._control.check_explicit()
        await self._control.unload(name, unload_dependents)

    async def hold(self, name: str) -> None:
        """Takes a model down in every control mode, over restarts, until `release`."""
        await self._control.hold(name)

    async def release(self, name: str) -> None:
        """Loads a model in every control mode; the end of a `hold`."""
        await self._control.release(name)

    async def promote(self, name: str, version: Optional[str] = None) -> None:
        """Makes a version serve at once: the one that is being compared, or the one named, which may have been refused.

        ModelNotFound, InvalidRequest, ControlRefused (the model is not loaded), EngineLoadError; what serves goes on then.
        """
        await self._control.promote(name, version)

    async def roll_back(self, name: str) -> None:
        """Makes the version serve that did before; where none did, what is being compared is refused.

        ModelNotFound, InvalidRequest (nothing to go back to), ControlRefused (it is not loaded), EngineLoadError.
        """
        await self._control.roll_back(name)

    def pinned(self) -> Set[Tuple[str, str]]:
        """Name and number of the versions that serve, did before or are compared."""
        return self._lineup.pinned()
