"""Tensors were placed for the host that ran a model when its request began: what if the model runs elsewhere by now."""

from __future__ import annotations

from dataclasses import replace

from edge_agent import errors
from edge_agent.domain.requests import InferRequest
from edge_agent.processes.arena import Arena
from edge_agent.serving.servable import Servable


async def within_reach(request: InferRequest, served: Servable, arena: Arena) -> InferRequest:
    """The request as the version's host can run it: it maps what it reads, and a room that it cannot write is left out.

    Without a room the host asks for one when it has the answer. An ensemble's steps come here one by one. ModelNotReady.
    """
    if served.engine == "ensemble":
        return request
    own = served.segment.number
    read = {tensor.lease.segment for tensor in request.inputs}
    for number in sorted(read - {own}):
        segment = arena.find(number)
        if segment.abandoned:
            raise errors.ModelNotReady("the engine host of model '%s' ended while the request was on its way" % served.name)
        await served.share(segment)
    room = request.room
    if room is None or room.segment == own or (request.callers and room.segment in read):  # a caller's memory is writable
        return request
    return replace(request, room=None)
