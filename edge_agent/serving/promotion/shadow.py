"""Requests that were answered are run once more on a version that is being compared, when nothing else runs or waits."""

from __future__ import annotations

import asyncio
import contextlib
import math
from dataclasses import replace
from typing import Callable, Dict, List, Optional, Sequence

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.tensors import Lease
from edge_agent.processes.arena import Arena
from edge_agent.serving.promotion.agreement import agreement
from edge_agent.serving.reach import within_reach
from edge_agent.serving.servable import Servable
from edge_agent.serving.threads import in_thread
from edge_agent.serving.version import ServedVersion
from edge_agent.telemetry.tasks import Tasks

_SHARE = 0.2  #: of the time at most: after each run there is a pause
_LONGEST_REST_S = 5.0  #: after a run that failed: the third one ends it all
_NEAR_S = 0.1  #: of a request with a deadline so near the answer has yet to be delivered

#: agreement, milliseconds of the candidate and of the one that serves, whether that one ran nothing else with it
Compared = Callable[[float, float, float, bool], None]


class Shadow:
    """One request at a time, with pauses, in a host of less priority. What goes wrong is told to nobody else.

    A request that comes meanwhile does not wait for it, but they share the processor, its caches and the GPU.
    """

    def __init__(
        self,
        candidate: ServedVersion,
        arena: Arena,
        clock: Clock,
        max_abs_error: Optional[float],
        on_compared: Compared,
        on_failed: Callable[[str], None],
    ) -> None:
        """`on_failed` is told why the candidate has no answer where the other has one; shortages do not count."""
        self.skipped = 0  #: requests that came while something else was to do, or without memory left
        self._candidate = candidate
        self._arena = arena
        self._clock = clock
        self._max_abs_error = max_abs_error
        self._on_compared = on_compared
        self._on_failed = on_failed
        self._tasks = Tasks(lambda error: on_failed("%s: %s" % (type(error).__name__, error)))
        self._running: Optional[asyncio.Task[None]] = None
        self._rest_until = 0.0  #: monotonic seconds

    async def stop(self) -> None:
        """Gives up what runs."""
        await self._tasks.stop()

    def offer(self, serving: Servable, request: InferRequest, response: InferResponse) -> None:
        """A request was answered; its leases are held by whoever asked, and from now on by this, too."""
        if not self._may_run(serving, request):
            self.skipped += 1
            return
        held = [lease.retain() for lease in _leases(request, response)]
        self._running = self._tasks.spawn(self._run(serving, request, response), "shadow:" + self._candidate.label)
        self._running.add_done_callback(lambda done: _release(held))

    def _may_run(self, serving: Servable, request: InferRequest) -> bool:
        candidate = self._candidate
        if self._running is not None and not self._running.done():
            return False
        if self._clock.monotonic() < self._rest_until or not _is_idle(serving):
            return False
        if not candidate.ready or candidate.batcher is None or not candidate.batcher.idle:
            return False
        takes_s = candidate.batcher.service_time.expect(_rows(serving, request)) or 0.0
        return request.deadline is None or request.deadline - self._clock.monotonic() > takes_s + _NEAR_S

    async def _run(self, serving: Servable, request: InferRequest, response: InferResponse) -> None:
        began = self._clock.monotonic()
        with contextlib.ExitStack() as held:
            longest_s = _LONGEST_REST_S
            try:
                answer = await self._answer(request, held)
                held.callback(answer.release)
                found = await in_thread(agreement, response, answer, self._max_abs_error)
            except (errors.UnavailableError, errors.ChildError):
                self.skipped += 1  # no memory, or its host is being started: no fault of the version
            except (errors.EdgeAgentError, ValueError, TypeError, KeyError) as error:
                self._on_failed(str(error))
            else:
                longest_s = math.inf
                alone = response.batch_size == _rows(serving, request)
                self._on_compared(found, answer.timing.compute_us / 1e3, response.timing.compute_us / 1e3, alone)
            now = self._clock.monotonic()
            self._rest_until = now + min((now - began) * (1.0 / _SHARE - 1.0), longest_s)

    async def _answer(self, request: InferRequest, held: contextlib.ExitStack) -> InferResponse:
        """The candidate's. What holds it is released by `held`."""
        text = _misfit(self._candidate, request)
        if text:
            raise errors.TensorMismatch(text)
        room = self._room(request)
        if room is not None:
            held.callback(room.release)
        shadow = replace(
            request, version=None, room=room, id="", source="shadow", priority=0, timeout_us=0, deadline=None, callers=()
        )
        return await self._candidate.infer(await within_reach(shadow, self._candidate, self._arena))

    def _room(self, request: InferRequest) -> Optional[Lease]:
        """A slot for its outputs; ArenaFull where none is free, or where it needs none but nobody could get any."""
        wish = self._candidate.room_wish(sum(tensor.nbytes for tensor in request.inputs))
        wants = () if request.decode else wish.wants
        leases = self._arena.try_acquire(wants or [(self._candidate.segment, 1)])
        if leases is None:
            raise errors.ArenaFull("others need the memory")
        if wants:
            return wish.filled(leases)
        _release(leases)
        return None


def _is_idle(version: Servable) -> bool:
    """Whether it runs nothing, and nothing waits for it."""
    return isinstance(version, ServedVersion) and version.batcher is not None and version.batcher.idle


def _leases(request: InferRequest, response: InferResponse) -> List[Lease]:
    """Each slot that is read once."""
    tensors = (*request.inputs, *response.outputs)
    found: Dict[int, Lease] = {id(tensor.lease): tensor.lease for tensor in tensors}
    return list(found.values())


def _release(leases: Sequence[Lease]) -> None:
    for lease in leases:
        lease.release()


def _rows(serving: Servable, request: InferRequest) -> int:
    return request.inputs[0].shape[0] if serving.max_batch_size and request.inputs and request.inputs[0].shape else 1


def _misfit(candidate: ServedVersion, request: InferRequest) -> str:
    """Why it cannot take a request that the version before it takes; empty where it can."""
    specs = {spec.name: spec for spec in candidate.inputs}
    given = {tensor.name for tensor in request.inputs}
    if set(specs) != given:
        return "it takes other inputs: %s, not %s" % (", ".join(sorted(specs)), ", ".join(sorted(given)))
    for tensor in request.inputs:
        spec = specs[tensor.name]
        fits = len(spec.shape) == len(tensor.shape) and all(want in (-1, got) for want, got in zip(spec.shape, tensor.shape))
        if spec.datatype is not tensor.datatype or not fits:
            wanted, got = (spec.datatype.value, list(spec.shape)), (tensor.datatype.value, list(tensor.shape))
            return "its input '%s' is %s %s, not %s %s" % (tensor.name, *wanted, *got)
    unknown = set(request.outputs).difference(spec.name for spec in candidate.outputs)
    return "it has no output '%s'" % sorted(unknown)[0] if unknown else ""
