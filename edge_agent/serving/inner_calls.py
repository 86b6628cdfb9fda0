"""The calls that Python models make of other models: through the same door, as a part of the request that makes them."""

from __future__ import annotations

from typing import Awaitable, Callable, Optional

from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.engines.calls import Call, CallDesk
from edge_agent.serving.servable import Servable

Lookup = Callable[[str, Optional[str]], Servable]
Infer = Callable[[InferRequest], Awaitable[InferResponse]]


def call_desk(lookup: Lookup, infer: Infer) -> CallDesk:
    """Where the hosts' calls come together: each finds its model, has its tensors read and written there, and is run."""

    async def on_call(call: Call) -> InferResponse:
        served = lookup(call.model, call.version)
        await served.share(call.segment, writable=True)
        room_bytes = served.room_for(call.input_bytes)
        return await infer(await call.request(served.version, served.inputs, served.outputs, served.max_batch_size, room_bytes))

    return CallDesk(on_call)
