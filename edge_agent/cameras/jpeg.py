"""Frames that a camera's child keeps, as JPEG."""

from __future__ import annotations

from typing import Any, Awaitable, Callable, List, Mapping, Sequence

from edge_agent.cameras.vision_child import Reply, VisionChild
from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import Lease
from edge_agent.errors import ChildGone, ChildRefused, SourceUnavailable
from edge_agent.processes.arena import Arena

NO_ROOM = "image.no_room"  # the child's refusal: the slot is too small, `need` says how large
_SLOT_S = 1.0
_TRIES = 3  # the newest frame is another one at the next try, it may take more
_FIRST_BYTES = 256 * 1024
_MOST_BOXES = 300
_LABEL_CHARACTERS = 40

Ask = Callable[[str, Mapping[str, Any], Sequence[Lease]], Awaitable[Reply]]


class JpegEncoder:
    """Has the child write JPEGs into slots of a size that the last ones took."""

    def __init__(self, child: VisionChild, arena: Arena, ask: Ask) -> None:
        self._child = child
        self._arena = arena
        self._ask = ask
        self._nbytes = _FIRST_BYTES

    async def encode(self, sequence: int, boxes: Sequence[Detection], quality: int) -> bytes:
        """JPEG of a kept frame (0: of the newest)."""
        drawn = [{"label": one.label[:_LABEL_CHARACTERS], "score": one.score, "box": one.box} for one in boxes if one.box]
        fields = {"sequence": sequence, "quality": quality, "boxes": drawn[:_MOST_BOXES]}
        for _ in range(_TRIES):
            try:
                return await self._into_slot(fields)
            except ChildRefused as refusal:
                self._nbytes = int(refusal.detail["need"]) * 5 // 4
        raise SourceUnavailable("each picture was larger than the one before")

    async def _into_slot(self, fields: Mapping[str, Any]) -> bytes:
        (lease,) = await self._slot()
        try:
            place = {"segment": lease.segment, "offset": lease.offset, "nbytes": lease.nbytes}
            reply = await self._ask("encode", {**fields, **place}, [lease])
            return bytes(lease.view()[: reply["nbytes"]])
        finally:
            lease.release()

    async def _slot(self) -> List[Lease]:
        try:
            return list(await self._arena.acquire([(self._child.segment, self._nbytes)], _SLOT_S))
        except ChildGone as error:
            raise SourceUnavailable(str(error)) from error
