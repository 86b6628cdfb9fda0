"""What is asked of plans by hand."""

from __future__ import annotations

from typing import Any, Dict, Optional

from edge_agent import errors
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.healing.healer import Healer
from edge_agent.serving.version import ServedVersion


class PlanVerbs:
    """A part of Serving."""

    _catalogue: Catalogue
    _healer: Healer

    async def build_plan(self, name: str, version: Optional[str] = None) -> None:
        """Has a TensorRT plan built anew, whatever failed before; returns when that is under way, see `status`.

        ModelNotFound, Unsupported (nothing to build it of, or no TensorRT here), EngineLoadError (its files), StoreError
        (no place for the plan).
        """
        await self._healer.by_hand.build(self._of_tensorrt(name, version))

    async def verify_plan(self, name: str, version: Optional[str] = None) -> Dict[str, Any]:
        """Compares the plan that serves with golden or ONNX Runtime outputs, now: `good` (None: nobody can say) and figures.

        ModelNotFound, Unsupported where no plan serves.
        """
        return await self._healer.by_hand.verify(self._of_tensorrt(name, version))

    def _of_tensorrt(self, name: str, number: Optional[str]) -> ServedVersion:
        model = self._catalogue.known(name)
        newest = model.newest_first()
        found = model.loaded(number) if number else model.ready_version() or (newest[0] if newest else None)
        if found is None:
            raise errors.ModelNotFound("'%s'%s is not loaded" % (name, " version %s" % number if number else ""))
        if not isinstance(found, ServedVersion) or found.platform != "tensorrt_plan":
            text = "%s is no model of TensorRT: its platform is %s; say tensorrt_plan, or add [build] to its config.toml"
            raise errors.Unsupported(text % (found.label, found.platform))
        return found
