"""One version of a model, as requests see it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Hashable, List, Optional, Tuple

from edge_agent import errors
from edge_agent.batching.batcher import DynamicBatcher
from edge_agent.batching.policy import BatchPolicy
from edge_agent.config.model_config import ModelConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.frames import Preprocess
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.domain.status import PartStatus, State
from edge_agent.domain.tensors import TensorSpec
from edge_agent.engines.host import EngineHost
from edge_agent.engines.hosted import HostedModel
from edge_agent.engines.plans.shelf import Plan
from edge_agent.processes.arena import Segment
from edge_agent.serving import picture
from edge_agent.serving.build_status import BuildStatus
from edge_agent.serving.repository import VersionEntry
from edge_agent.serving.room import RoomWish, row_bytes, rows_in
from edge_agent.serving.statistics import VersionStatistics

_ENGINES = {"onnxruntime_onnx": "onnxruntime", "tensorrt_plan": "tensorrt", "python": "python"}

#: as often as this a version ends its host before it is given up
_DEATHS = 3


class ServedVersion:
    """A version that was asked for: loading, ready, or failed with a reason."""

    def __init__(
        self,
        name: str,
        entry: VersionEntry,
        config: ModelConfig,
        clock: Clock,
        statistics: Optional[VersionStatistics] = None,
        aside: str = "",
    ) -> None:
        """`statistics`: of the version that it replaces, where there was one.

        `aside`: it answers nobody. It runs in an engine host of its own, named as the usual one with this behind, so that
        its death is nobody else's, and no metric counts it.
        """
        self.name = name
        self.version = str(entry.number)
        self.aside = aside
        self.entry = entry
        self.platform = entry.platform
        self.engine = _ENGINES.get(entry.platform, entry.platform)
        self.config = config
        self.inputs: Tuple[TensorSpec, ...] = ()
        self.outputs: Tuple[TensorSpec, ...] = ()
        self.max_batch_size = config.max_batch_size or 0
        self.preprocess: Optional[Preprocess] = None
        self.host: Optional[EngineHost] = None
        self.hosted: Optional[HostedModel] = None
        self.batcher: Optional[DynamicBatcher] = None
        self.statistics = statistics or VersionStatistics()
        self.sha256 = ""
        self.verified = False  #: its plan was compared with what the model should answer
        self.plan: Optional[Plan] = None  #: what TensorRT runs
        self.truth_digest = ""  #: of the ONNX model and its data, where a plan is made of it
        self.figures: Dict[str, Any] = {}  #: of its check
        self.unused: Optional[Tuple[str, str]] = None  #: code and reason: its plan is there, and not used till the next load
        self.deaths = 0  #: of its host that it is to blame for, where it was given up
        self.build: Optional[BuildStatus] = None  #: how its plan comes to be
        self.on_gone: Callable[[], None] = lambda: None  #: it answers nobody any more
        self._clock = clock
        self._room_hint = 0
        self._resting: Tuple[State, str, Dict[str, Any]] = (State.OK, "", {})
        self.part = PartStatus(State.DEGRADED, clock.now(), "model.loading", {"model": self.label})

    @property
    def label(self) -> str:
        """`NAME/VERSION`."""
        return "%s/%s" % (self.name, self.version)

    @property
    def decodes(self) -> bool:
        """Whether the host can turn outputs into detections."""
        return self.config.decode_json() is not None

    @property
    def ready(self) -> bool:
        """Whether requests are taken now."""
        up = self.part.state in (State.OK, State.DEGRADED) and self.settled
        return up and self.hosted is not None and self.hosted.ready

    @property
    def crashes(self) -> bool:
        """Whether it was given up as it ended its host again and again; what failed for the moment does not count."""
        return self.deaths >= _DEATHS

    @property
    def settled(self) -> bool:
        """Loaded, or failed with a reason: not loading any more."""
        return self.part.code != "model.loading"

    def become(self, state: State, code: str = "", **args: Any) -> bool:
        """Sets the state; answers whether it changed."""
        if (state, code) == (self.part.state, self.part.code):
            return False
        self.part = PartStatus(state, self._clock.now(), code, {"model": self.label, **args})
        return True

    def rest(self, state: State, code: str = "", **args: Any) -> bool:
        """Sets the state that it has whenever its host is up, now too; answers whether it changed."""
        self._resting = (state, code, args)
        same_text = self.part.args.get("text") == args.get("text")
        changed = self.become(state, code, **args)
        if not changed and not same_text:
            self.part = PartStatus(state, self.part.since, code, {"model": self.label, **args})
        return changed

    def up_again(self) -> None:
        """Its host has come back."""
        state, code, args = self._resting
        self.become(state, code, **args)

    @property
    def load_ms(self) -> int:
        """How long its loading took; 0 before."""
        return 0 if self.hosted is None or self.hosted.report is None else self.hosted.report.load_ms

    @property
    def pending(self) -> int:
        """Requests that wait."""
        return 0 if self.batcher is None else self.batcher.pending

    @property
    def segment(self) -> Segment:
        """Its host's."""
        assert self.host is not None
        return self.host.segment

    def room_at(self, now: float) -> float:
        """When one more request would begin to run, monotonic seconds."""
        return now if self.batcher is None else self.batcher.room_at(now)

    async def share(self, segment: Segment, writable: bool = False) -> None:
        """Lets its host read tensors that lie in `segment`, or write them, too."""
        assert self.host is not None
        await self.host.share(segment, writable)

    def close(self, error: errors.EdgeAgentError) -> None:
        """No new requests; those that wait end with `error`."""
        if self.batcher is not None:
            self.batcher.close(error)

    async def retire(self) -> None:
        """Ends what waits and runs, then lets the host free it."""
        self.on_gone()
        if self.batcher is not None:
            await self.batcher.drain()
            self.batcher.close(errors.ModelNotReady("model '%s' version %s is unloaded" % (self.name, self.version)))
        if self.host is not None and self.hosted is not None:
            self.host.drop(self.hosted)

    # -- loaded -----------------------------------------------------------------------------------------------------

    def loaded(self, host: EngineHost, hosted: HostedModel, batcher: DynamicBatcher) -> None:
        """Takes what the host found; ConfigError where the config does not fit it."""
        report = hosted.report
        assert report is not None
        batched = self.max_batch_size > 0
        self.inputs = tuple(spec.spec(batched) for spec in self.config.input) or report.inputs
        self.outputs = tuple(spec.spec(batched) for spec in self.config.output) or report.outputs
        if self.config.image is not None:
            self.preprocess = picture.resolve(self.config.image, self.inputs)
        self.host, self.hosted, self.batcher = host, hosted, batcher
        batcher.use(hosted.instances)
        for instance in hosted.instances:
            instance.on_up = batcher.room

    def policy(self, max_requests: int) -> BatchPolicy:
        """The model's `dynamic_batching`; without the table what waits is joined but nobody waits for company."""
        batching = self.config.dynamic_batching
        table = None if batching is None else batching.model_dump()
        return BatchPolicy.from_config(table, self.max_batch_size, max_requests)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def infer(self, request: InferRequest) -> InferResponse:
        """Runs one request through the batcher."""
        assert self.batcher is not None
        rows, key = self._rows_and_key(request)
        response = await self.batcher.submit(request, rows, key, request.deadline)
        self._room_hint = max(self._room_hint, sum(tensor.nbytes + 64 for tensor in response.outputs) // rows)
        return response

    def _rows_and_key(self, request: InferRequest) -> Tuple[int, Hashable]:
        """Rows, and what must be equal for requests to share a batch: inputs, datatypes, shapes beyond the batch's."""
        skip = 1 if self.max_batch_size > 0 else 0
        first = request.inputs[0].shape if request.inputs else ()
        rows = first[0] if skip and first else 1
        if rows < 1:
            raise errors.TensorMismatch("model '%s': the batch dimension is %d, it must be at least 1" % (self.name, rows))
        return rows, tuple((tensor.name, tensor.datatype.value, tensor.shape[skip:]) for tensor in request.inputs)

    @property
    def room_is_known(self) -> bool:
        """Whether `room_for` says what the outputs take, not what they took so far."""
        return 0 not in self._output_sizes()

    def _output_sizes(self) -> List[int]:
        return [row_bytes(spec, self.max_batch_size > 0) for spec in self.outputs]

    def room_for(self, input_bytes: int) -> int:
        """Bytes to keep for the outputs of a request of `input_bytes`: exact for fixed shapes, else what was seen so far."""
        rows = rows_in(input_bytes, self.inputs, self.max_batch_size)
        sizes = self._output_sizes()
        if 0 in sizes:
            return rows * self._room_hint
        return sum((rows * size + 63) & ~63 for size in sizes)

    def room_wish(self, input_bytes: int) -> RoomWish:
        """A slot for the outputs, where anything is known of their size."""
        room = self.room_for(input_bytes)
        return RoomWish([(self.segment, room)] if room else [], self.room_is_known)

    def config_json(self) -> Dict[str, Any]:
        """The completed ModelConfig in Triton's JSON form."""
        return self.config.triton_json(self.name, self.platform, self.max_batch_size, self.inputs, self.outputs)

    def as_json(self) -> Dict[str, Any]:
        """An entry of `versions` in `/api/status`."""
        shown = {"version": self.version, "engine": self.engine, "verified": self.verified, **self.part.as_json()}
        if self.plan is not None:
            made = self.plan.sidecar
            built = {"precision": made.precision, "built_at": made.built_at, "bytes": made.size} if made.size else {}
            shown["plan"] = {**self.figures, **built}  # of somebody else's plan nobody knows how it was made
        return shown if self.build is None else {**shown, "build": self.build.as_json()}


def deaths_of(error: Exception) -> int:
    """How often a version ended its host within a minute, where this says that it was given up for it; else 0."""
    return int(error.args_by_name.get("deaths") or 0) if isinstance(error, errors.EdgeAgentError) else 0
