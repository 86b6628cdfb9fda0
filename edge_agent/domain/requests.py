"""One request to a model and its answer, as every door (HTTP, MQTT, camera) speaks them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Mapping, Optional, Tuple, Union

from edge_agent.domain.results import Detection
from edge_agent.domain.tensors import Lease, Tensor

Parameter = Union[str, int, float, bool]


@dataclass(frozen=True)
class InferRequest:
    """What is asked of a model. Whoever makes it holds the leases and releases them when `infer` returned."""

    model: str
    inputs: Tuple[Tensor, ...]
    version: Optional[str] = None  #: None is the newest ready version
    outputs: Tuple[str, ...] = ()  #: names of wanted outputs; empty is all
    room: Optional[Lease] = None  #: slot for the outputs, taken with the input's in one step; None with `decode`
    decode: bool = False  #: True asks for detections (decoded in the host) instead of tensors
    id: str = ""
    source: str = ""  #: who asks: camera/NAME, http/NAME, mqtt/MODEL
    priority: int = 0
    timeout_us: int = 0  #: KServe `timeout`: longest wait in the queue; 0 is the model's own
    deadline: Optional[float] = None  #: monotonic second after which nobody wants the answer
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    callers: Tuple[str, ...] = ()  #: instances of Python models that wait for the answer


@dataclass(frozen=True)
class Timing:
    """Where the time of one request went, in microseconds."""

    queue_us: int = 0
    input_us: int = 0
    infer_us: int = 0
    output_us: int = 0
    total_us: int = 0

    @property
    def compute_us(self) -> int:
        """Input, inference and output together."""
        return self.input_us + self.infer_us + self.output_us

    def stages(self) -> Dict[str, int]:
        """The stages as `stages_us` names them."""
        return {"queue": self.queue_us, "infer": self.input_us + self.infer_us, "post": self.output_us}


@dataclass(frozen=True)
class InferResponse:
    """What the model said. Output tensors lie in the request's `room` (or in leases of their own): release() when read."""

    model: str
    version: str
    id: str
    outputs: Tuple[Tensor, ...]
    detections: Optional[Tuple[Detection, ...]]  #: in pixels of the model's input; None unless `decode`
    timing: Timing
    batch_size: int
    kept: Tuple[Lease, ...] = ()  #: leases that this answer holds beyond the request's
    cached: bool = False  #: answered by the response cache: nothing ran

    def release(self) -> None:
        """Give back what the answer alone holds."""
        for lease in self.kept:
            lease.release()
