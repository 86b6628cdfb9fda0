"""One request on its way through the steps of an ensemble. Tensors stay where they were made and go on by reference."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from dataclasses import dataclass, replace
from typing import Awaitable, Callable, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from edge_agent import errors
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.domain.tensors import Lease, Tensor, TensorSpec
from edge_agent.engines.waits import Waits
from edge_agent.processes.arena import Arena, Segment
from edge_agent.serving.ensemble_fit import shapes_agree
from edge_agent.serving.ensemble_plan import PlanStep
from edge_agent.serving.room import StepRooms
from edge_agent.serving.servable import Servable


@dataclass(frozen=True)
class StepDoor:
    """How an ensemble reaches other models: as everybody does."""

    lookup: Callable[[str, Optional[str]], Servable]
    infer: Callable[[InferRequest], Awaitable[InferResponse]]
    arena: Arena
    waits: Waits  #: which Python models wait for which models


@dataclass
class _Made:
    """What a step made: slots, and how many uses of what lies in them are still to come."""

    leases: List[Lease]
    uses: int

    def used(self) -> None:
        """One use less; after the last the slots are free."""
        self.uses -= 1
        if self.uses == 0:
            self.release()

    def release(self) -> None:
        """Gives the slots back."""
        leases, self.leases = self.leases, []
        for lease in leases:
            lease.release()


class EnsembleRun:
    """Runs each step as soon as its inputs are there; the first that fails ends all of it."""

    def __init__(
        self,
        name: str,
        steps: Sequence[PlanStep],
        wanted: Sequence[str],
        request: InferRequest,
        rooms: Optional[StepRooms],
        door: StepDoor,
    ) -> None:
        self._name = name
        self._waiting = list(steps)
        self._wanted = tuple(wanted)
        self._request = request
        self._rooms = rooms
        self._door = door
        self._uses = Counter([tensor for step in steps for tensor in step.takes.values()] + list(dict.fromkeys(wanted)))
        self._tensors: Dict[str, Tensor] = {tensor.name: tensor for tensor in request.inputs}
        self._made: Dict[str, _Made] = {}  #: by tensor
        self._timings: List[Timing] = []

    async def run(self) -> Tuple[Tuple[Tensor, ...], Tuple[Lease, ...]]:
        """The wanted outputs, and the slots that they lie in: the caller's to release. Raises what a step raised."""
        tasks: List[asyncio.Task[None]] = []
        try:
            running: Set[asyncio.Task[None]] = set()
            while self._waiting or running:
                new = self._start_ready()
                tasks += new
                running.update(new)
                if not running:
                    raise self._stuck()
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    task.result()
        except BaseException:
            await self._abandon(tasks)
            raise
        made = {id(self._made[name]): self._made[name] for name in self._wanted}
        return (
            tuple(self._tensors[name] for name in self._wanted),
            tuple(lease for one in made.values() for lease in one.leases),
        )

    @property
    def timing(self) -> Timing:
        """The times of all steps together, as if each had come after the other."""
        return Timing(
            queue_us=sum(one.queue_us for one in self._timings),
            input_us=sum(one.input_us for one in self._timings),
            infer_us=sum(one.infer_us for one in self._timings),
            output_us=sum(one.output_us for one in self._timings),
        )

    async def _abandon(self, tasks: Sequence[asyncio.Task[None]]) -> None:
        """What runs is of no use any more; what waits never runs."""
        for task in tasks:
            task.cancel()
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for made in self._made.values():
                made.release()

    def _start_ready(self) -> List[asyncio.Task[None]]:
        ready = [step for step in self._waiting if all(tensor in self._tensors for tensor in step.takes.values())]
        self._waiting = [step for step in self._waiting if step not in ready]
        loop = asyncio.get_running_loop()
        return [loop.create_task(self._step(step)) for step in ready]

    def _stuck(self) -> errors.EdgeAgentError:
        step = self._waiting[0]
        missing = next(tensor for tensor in step.takes.values() if tensor not in self._tensors)
        text = "in ensemble '%s', step '%s' takes the tensor '%s', which the request does not have"
        return errors.TensorMismatch(text % (self._name, step.model, missing))

    # -- one step ---------------------------------------------------------------------------------------------------

    async def _step(self, step: PlanStep) -> None:
        room = self._rooms.take(step.index) if self._rooms is not None else None
        with contextlib.ExitStack() as undo:
            if room is not None:
                undo.callback(room.release)
            try:
                response = await self._infer(step, room)
            except errors.EdgeAgentError as error:
                raise _named(error, self._name, step.model) from error
            undo.callback(response.release)
            self._check_made(step, response)
            undo.pop_all()
        self._keep(step, room, response)

    async def _infer(self, step: PlanStep, room: Optional[Lease]) -> InferResponse:
        served = self._door.lookup(step.model, step.version)
        inputs = tuple(replace(self._tensors[tensor], name=name) for name, tensor in step.takes.items())
        _check_shapes(inputs, served.inputs)
        for segment in self._segments(inputs):
            await served.share(segment)
        request = replace(
            self._request, model=step.model, version=step.version, inputs=inputs, outputs=tuple(step.makes), room=room
        )
        with self._waiting_for(served.label):
            return await self._door.infer(request)

    @contextlib.contextmanager
    def _waiting_for(self, label: str) -> Iterator[None]:
        """A Python model that called the ensemble waits for each step: one that only it could run would never come."""
        caller = self._request.callers[0] if self._request.callers else ""
        if caller and not self._door.waits.begin(caller, label):
            text = "%s would wait for itself: each instance of it waits for this answer; give it another instance"
            raise errors.ExecutionError(text % label)
        try:
            yield
        finally:
            if caller:
                self._door.waits.end(caller, label)

    def _segments(self, inputs: Sequence[Tensor]) -> List[Segment]:
        return [self._door.arena.find(number) for number in sorted({tensor.lease.segment for tensor in inputs})]

    def _check_made(self, step: PlanStep, response: InferResponse) -> None:
        missing = set(step.makes) - {tensor.name for tensor in response.outputs}
        if missing:
            text = "in ensemble '%s', step '%s' gave no output '%s'"
            raise errors.ExecutionError(text % (self._name, step.model, sorted(missing)[0]))

    def _keep(self, step: PlanStep, room: Optional[Lease], response: InferResponse) -> None:
        """Its outputs are there for others from now on; what it read may be free."""
        self._timings.append(response.timing)
        outputs = [tensor for tensor in response.outputs if tensor.name in step.makes]
        leases = list(response.kept)
        if room is not None and any(tensor.lease is room for tensor in outputs):
            leases.append(room)
        elif room is not None:
            room.release()
        made = _Made(leases, sum(self._uses[tensor] for tensor in step.makes.values()))
        for tensor in outputs:
            name = step.makes[tensor.name]
            self._tensors[name] = replace(tensor, name=name)
            self._made[name] = made
        for name in step.takes.values():
            if name in self._made:
                self._made[name].used()


def _check_shapes(inputs: Sequence[Tensor], specs: Sequence[TensorSpec]) -> None:
    """Sizes that no configuration could tell, against what the model takes."""
    by_name = {spec.name: spec for spec in specs}
    for tensor in inputs:
        spec = by_name[tensor.name]
        if not shapes_agree(tensor.shape, spec.shape):
            text = "unexpected shape for input '%s': expected %s, got %s"
            raise errors.TensorMismatch(text % (tensor.name, list(spec.shape), list(tensor.shape)))


def _named(error: errors.EdgeAgentError, ensemble: str, step: str) -> errors.EdgeAgentError:
    """The same error with the step in its text; another object, since the one that came may be others' answer too.

    A step's model that is gone is not the caller's mistake: it named the ensemble, which is known.
    """
    kind = errors.ModelNotReady if isinstance(error, errors.ModelNotFound) else type(error)
    text = "in ensemble '%s', step '%s': %s" % (ensemble, step, error)
    named = kind.__new__(kind, text)
    named.__dict__.update(error.__dict__)
    return named
