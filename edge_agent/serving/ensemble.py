"""One version of an ensemble: models behind each other, asked for as one. It has no engine and loads nothing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, Callable, Dict, Optional, Tuple

from edge_agent import errors
from edge_agent.config.model_config import ModelConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import Preprocess
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.domain.status import PartStatus, State
from edge_agent.domain.tensors import TensorSpec
from edge_agent.processes.arena import Segment
from edge_agent.serving.ensemble_fit import misfit
from edge_agent.serving.ensemble_plan import EnsemblePlan, PlanStep
from edge_agent.serving.ensemble_run import EnsembleRun, StepDoor
from edge_agent.serving.repository import VersionEntry
from edge_agent.serving.room import RoomWish, StepRooms, StepWish, row_bytes, rows_in
from edge_agent.serving.servable import Servable
from edge_agent.serving.statistics import VersionStatistics

Steps = Tuple[Tuple[PlanStep, Servable], ...]
ChainFault = Tuple[str, str]  #: code and text


class Look:
    """What one look at an ensemble found of those below it: each is looked at once, by however many ways it is reached."""

    def __init__(self) -> None:
        self._found: Dict[EnsembleVersion, ChainFault] = {}
        self._depth = 0

    def trouble(self, one: EnsembleVersion, find: Callable[[], ChainFault]) -> ChainFault:
        """What `find` says, or has said in this look. A look does not leave the loop, so nothing changes meanwhile."""
        if one in self._found:
            return self._found[one]
        self._depth += 1
        try:
            found = self._found[one] = find()
        finally:
            self._depth -= 1
            if not self._depth:
                self._found.clear()
        return found


class EnsembleVersion:
    """Implements Servable. Its state follows the models that it calls, at every look."""

    engine = "ensemble"
    decodes = False
    load_ms = 0
    sha256 = ""
    preprocess: Optional[Preprocess] = None
    settled = True  #: there is nothing to load

    def __init__(
        self,
        name: str,
        entry: VersionEntry,
        config: ModelConfig,
        clock: Clock,
        door: StepDoor,
        chain_fault: Callable[[str], ChainFault],
        look: Look,
        on_run: Callable[[str, str, int], None],
        statistics: VersionStatistics,
    ) -> None:
        assert config.ensemble_scheduling is not None
        self.name = name
        self.version = str(entry.number)
        self.platform = entry.platform
        self.config = config
        self.max_batch_size = config.max_batch_size or 0
        batched = self.max_batch_size > 0
        self.inputs: Tuple[TensorSpec, ...] = tuple(tensor.spec(batched) for tensor in config.input)
        self.outputs: Tuple[TensorSpec, ...] = tuple(tensor.spec(batched) for tensor in config.output)
        self.statistics = statistics
        inputs, outputs = [spec.name for spec in self.inputs], [spec.name for spec in self.outputs]
        self._plan = EnsemblePlan(config.ensemble_scheduling, inputs, outputs)
        self._clock = clock
        self._door = door
        self._chain_fault = chain_fault
        self._look = look
        self._on_run = on_run
        self._part = PartStatus(State.OK, clock.now())
        self._fitted: Tuple[Tuple[Servable, ...], str] = ((), "")
        self._closed: Optional[errors.EdgeAgentError] = None
        self._in_flight = 0
        self._idle: Optional[asyncio.Event] = None  #: set when the last request ends after retire()

    @property
    def label(self) -> str:
        """`NAME/VERSION`."""
        return "%s/%s" % (self.name, self.version)

    # -- state ------------------------------------------------------------------------------------------------------

    @property
    def part(self) -> PartStatus:
        """Ok when each of its models is ready and they fit together."""
        code, text = self._look.trouble(self, self._trouble)
        if (code, text) != (self._part.code, self._part.args.get("text", "")):
            state = State.FAILED if code else State.OK
            self._part = PartStatus(state, self._clock.now(), code, {"model": self.label, "text": text})
        return self._part

    @property
    def ready(self) -> bool:
        """Whether requests are taken now."""
        return self.part.state is State.OK

    def _trouble(self) -> ChainFault:
        """Code and text of what keeps it from serving; both empty when nothing does."""
        fault = self._chain_fault(self.name)
        if fault[0]:
            return fault
        try:
            steps = self._steps()
        except errors.EdgeAgentError as error:
            return "model.dependency", str(error)
        text = self._misfit(steps)
        return ("model.config_rejected", text) if text else ("", "")

    def _steps(self) -> Steps:
        return tuple((step, self._served(step)) for step in self._plan.steps)

    def _served(self, step: PlanStep) -> Servable:
        try:
            return self._door.lookup(step.model, step.version)
        except errors.EdgeAgentError as error:
            raise errors.ModelNotReady("step '%s': %s" % (step.model, error)) from error

    def _misfit(self, steps: Steps) -> str:
        """Worked out once for each set of versions."""
        versions = tuple(served for _, served in steps)
        if len(versions) != len(self._fitted[0]) or any(a is not b for a, b in zip(versions, self._fitted[0])):
            self._fitted = (versions, misfit(self, steps))
        return self._fitted[1]

    # -- memory -----------------------------------------------------------------------------------------------------

    @property
    def segment(self) -> Segment:
        """That of the first model that reads the request; the others' hosts are given a look at it."""
        names = {spec.name for spec in self.inputs}
        first = next(step for step in self._plan.steps if names.intersection(step.takes.values()))
        return self._served(first).segment

    def room_wish(self, input_bytes: int) -> RoomWish:
        """Rooms of all steps together."""
        rows = rows_in(input_bytes, self.inputs, self.max_batch_size)
        return StepWish({step.index: self._step_wish(served, rows) for step, served in self._steps()})

    def _step_wish(self, served: Servable, rows: int) -> RoomWish:
        batched = served.max_batch_size > 0
        sizes = [row_bytes(spec, batched) for spec in served.inputs]
        return served.room_wish(0 if 0 in sizes else rows * sum(sizes))

    @property
    def room_is_known(self) -> bool:
        """Nobody else can make its rooms."""
        return False

    def room_for(self, input_bytes: int) -> int:
        """A single slot is of no use to it: its steps' hosts each write into their own memory."""
        return 0

    async def share(self, segment: Segment, writable: bool = False) -> None:
        """The hosts that read it are told when their step's turn comes."""

    # -- requests ---------------------------------------------------------------------------------------------------

    @property
    def pending(self) -> int:
        """It has no queue: its requests wait in those of its steps."""
        return 0

    def room_at(self, now: float) -> float:
        """When the first step would begin to run."""
        try:
            return self._served(self._plan.steps[0]).room_at(now)
        except errors.EdgeAgentError:
            return now

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs the steps that the wanted outputs need."""
        if self._closed is not None:
            raise self._closed
        rows = self._checked_rows(request)
        started = self._clock.monotonic()
        rooms = self._rooms(request)
        self._in_flight += 1
        try:
            wanted = request.outputs or self._plan.outputs
            run = EnsembleRun(self.name, self._plan.needed(request.outputs), wanted, request, rooms, self._door)
            outputs, kept = await run.run()
        finally:
            if rooms is not None and rooms is not request.room:
                rooms.release()
            self._left()
        timing = replace(run.timing, total_us=int((self._clock.monotonic() - started) * 1e6))
        self._count(rows, timing)
        return InferResponse(self.name, self.version, request.id, outputs, None, timing, rows, kept)

    def _checked_rows(self, request: InferRequest) -> int:
        if request.decode:
            raise errors.Unsupported("'%s' is an ensemble: it gives tensors, no detections" % self.name)
        unknown = set(request.outputs).difference(self._plan.outputs)
        if unknown:
            raise errors.InvalidRequest("unexpected inference output '%s' for model '%s'" % (sorted(unknown)[0], self.name))
        first = request.inputs[0].shape if request.inputs else ()
        rows = first[0] if self.max_batch_size and first else 1
        if rows < 1:
            raise errors.TensorMismatch("model '%s': the batch dimension is %d, it must be at least 1" % (self.name, rows))
        if rows > max(1, self.max_batch_size):
            text = "inference request batch-size must be <= %d for '%s', got %d"
            raise errors.TensorMismatch(text % (self.max_batch_size, self.name, rows))
        return rows

    def _rooms(self, request: InferRequest) -> Optional[StepRooms]:
        """Those that came with the request, else (a Python model calls) all of them if they are free now.

        Where they are not, each step asks for its own when it has its outputs, and fails where there is none.
        """
        if isinstance(request.room, StepRooms):
            return request.room
        wish = self.room_wish(sum(tensor.nbytes for tensor in request.inputs))
        try:
            leases = self._door.arena.try_acquire(wish.wants)
        except (errors.PayloadTooLarge, errors.ChildGone):
            return None
        rooms = wish.filled(leases) if leases else None
        assert rooms is None or isinstance(rooms, StepRooms)
        return rooms

    def _count(self, rows: int, timing: Timing) -> None:
        """An ensemble's request is an execution of it, as Triton counts."""
        self.statistics.ran(rows, timing.input_us, timing.infer_us, timing.output_us)
        self._on_run(self.name, self.version, rows)

    def _left(self) -> None:
        self._in_flight -= 1
        if not self._in_flight and self._idle is not None:
            self._idle.set()

    # -- end --------------------------------------------------------------------------------------------------------

    def close(self, error: errors.EdgeAgentError) -> None:
        """No new requests; what runs ends with its steps."""
        self._closed = error

    async def retire(self) -> None:
        """Ends what runs. There is nothing to give back."""
        self._idle = asyncio.Event()
        if self._in_flight:
            await self._idle.wait()
        self.close(errors.ModelNotReady("model '%s' version %s is unloaded" % (self.name, self.version)))

    # -- what is shown ----------------------------------------------------------------------------------------------

    def config_json(self) -> Dict[str, Any]:
        """The completed ModelConfig in Triton's JSON form."""
        return self.config.triton_json(self.name, self.platform, self.max_batch_size, self.inputs, self.outputs)

    def as_json(self) -> Dict[str, Any]:
        """An entry of `versions` in `/api/status`."""
        return {"version": self.version, "engine": self.engine, "verified": False, **self.part.as_json()}
