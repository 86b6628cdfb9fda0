"""The image child's side of the main process: foreign picture bytes in, a model's input in the arena out."""

from __future__ import annotations

from typing import Tuple

from edge_agent.cameras.answer import filled_frame
from edge_agent.cameras.copying import Buffer
from edge_agent.cameras.on_call import ChildOnCall, Job, Subject
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import FilledFrame, Preprocess
from edge_agent.domain.tensors import Lease
from edge_agent.errors import ChildRefused, InvalidRequest
from edge_agent.processes.arena import Arena
from edge_agent.processes.child import ChildSpec

MAX_PIXELS = 64 * 1000 * 1000
_DECODE_S = 10.0  # a picture that takes longer hangs the decoder
_SUBJECT = Subject("picture", "decoder", "image.not_a_picture")


class ImageChild(ChildOnCall):
    """Starts with its first use. A picture that ends it is tried once more, alone; then it is the caller's fault."""

    def __init__(self, arena: Arena, clock: Clock, python: str = "", max_pixels: int = MAX_PIXELS) -> None:
        # a stream of hostile pictures must not lock out the good ones: the wait between two lives stays short
        spec = ChildSpec("image", "edge_agent.vision_host.image", python=python, backoff_first_s=0.05, backoff_cap_s=0.5)
        super().__init__(spec, arena, clock, _SUBJECT)
        self._max_pixels = max_pixels

    async def prepare(self, data: Buffer, preprocess: Preprocess, timeout_s: float) -> Tuple[Lease, FilledFrame]:
        """The picture as a model's input; the caller releases the lease.

        InvalidRequest for what is no usable picture (args_by_name["refusal"] says in which way), DeadlineExceeded,
        QueueFull, Draining, ArenaFull.
        """
        if not len(data):
            raise InvalidRequest("the picture is empty: no bytes were sent", refusal="image.empty")
        fields, target = {"max_pixels": self._max_pixels}, {"preprocess": preprocess.as_json()}
        try:
            lease, reply = await self.run(Job("prepare", [data], preprocess.nbytes, _DECODE_S, fields, target), timeout_s)
        except ChildRefused as error:
            raise InvalidRequest(str(error), refusal=error.refusal) from error
        try:
            return lease.retain(), filled_frame(reply)
        finally:
            lease.release()
