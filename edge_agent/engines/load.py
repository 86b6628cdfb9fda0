"""What a host is told to load, and what it says about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Tuple

from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.engine_host import wire


@dataclass(frozen=True)
class LoadOrder:
    """One version of a model for an engine host."""

    model: str
    version: str
    platform: str  #: onnxruntime_onnx, tensorrt_plan or python
    path: str  #: the model file
    directory: str  #: the model's folder in the repository (Python decoders lie there)
    threads: int
    max_batch_size: Optional[int]  #: 0: the model has no batch dimension; None: as the file says
    inputs: Tuple[TensorSpec, ...] = ()  #: as configured; empty where the model file tells
    outputs: Tuple[TensorSpec, ...] = ()
    decode: Optional[Mapping[str, Any]] = None
    instances: int = 1
    config_json: str = ""  #: Triton's ModelConfig as JSON, for Python models
    warmup_sizes: Tuple[int, ...] = ()  #: batch sizes that are run once at loading, beside 1 and the largest
    tensorrt: Mapping[str, Any] = field(default_factory=dict)  #: of a plan: dla_core, cuda_graphs, spin

    @property
    def label(self) -> str:
        """`NAME/VERSION`, for people."""
        return "%s/%s" % (self.model, self.version)

    def fields(self, instance: int) -> Dict[str, Any]:
        """The control message's fields for one instance."""
        return {
            "instance": instance,
            "model": self.model,
            "version": self.version,
            "platform": self.platform,
            "path": self.path,
            "directory": self.directory,
            "threads": self.threads,
            "max_batch_size": self.max_batch_size,
            "inputs": [_spec_fields(spec) for spec in self.inputs],
            "outputs": [_spec_fields(spec) for spec in self.outputs],
            "decode": None if self.decode is None else dict(self.decode),
            "warmup": True,
            "warmup_sizes": list(self.warmup_sizes),
            "config_json": self.config_json,
            "tensorrt": dict(self.tensorrt),
        }


@dataclass(frozen=True)
class LoadReport:
    """What the host found in the model file."""

    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]
    max_batch_size: int  #: what it can do, at most what was asked
    load_ms: int
    warnings: Tuple[str, ...] = ()

    @property
    def max_requests(self) -> int:
        """How many requests one batch's message has room for."""
        inputs = tuple(wire.TensorRef(0, 0, (1,) * len(spec.shape), 0, 0, 0) for spec in self.inputs)
        request = wire.RequestRef(inputs, bytes(len(self.outputs)), 0, 1, 0, 0, 0)
        empty = len(wire.pack_execute(0, ()))
        return max(1, (wire.MAX_MESSAGE - empty) // (len(wire.pack_execute(0, (request,))) - empty))

    def same_model(self, other: LoadReport) -> bool:
        """Whether requests made for the one fit the other."""
        return (self.inputs, self.outputs, self.max_batch_size) == (other.inputs, other.outputs, other.max_batch_size)

    @classmethod
    def read(cls, reply: Mapping[str, Any]) -> LoadReport:
        """The report out of the host's reply."""
        return cls(
            inputs=tuple(_spec(fields) for fields in reply["inputs"]),
            outputs=tuple(_spec(fields) for fields in reply["outputs"]),
            max_batch_size=int(reply["max_batch_size"]),
            load_ms=int(reply.get("load_ms", 0)),
            warnings=tuple(reply.get("warnings", ())),
        )


def _spec_fields(spec: TensorSpec) -> Dict[str, Any]:
    return {"name": spec.name, "datatype": spec.datatype.value, "shape": list(spec.shape)}


def _spec(fields: Mapping[str, Any]) -> TensorSpec:
    return TensorSpec(str(fields["name"]), DataType(fields["datatype"]), tuple(int(dim) for dim in fields["shape"]))
