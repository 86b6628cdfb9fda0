"""What an engine host says of its TensorRT and its GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Tuple


@dataclass(frozen=True)
class GpuFacts:
    """Whether TensorRT can be used, and what a plan must fit."""

    available: bool = False
    code: str = ""  #: why not, of the table of codes
    text: str = ""  #: what was tried and what to do
    tensorrt: str = ""  #: its version, with the build where it tells it
    api: str = ""  #: io_tensors or bindings
    cuda_driver: int = 0  #: CUDA version of the driver, 1000 * major + 10 * minor
    cuda_runtime: int = 0  #: of CUDA's runtime likewise; 0 where TensorRT carries it within itself
    plugins: Tuple[str, ...] = ()  #: SHA-256 of each library of TensorRT's plugins
    device: str = ""
    compute_capability: Tuple[int, int] = (0, 0)
    multiprocessors: int = 0
    memory_bytes: int = 0
    integrated: bool = False  #: the GPU shares the CPU's memory, as on a Jetson
    fp16: bool = False
    int8: bool = False
    bf16: bool = False
    dla_cores: int = 0
    strongly_typed_only: bool = False  #: the network's own types are its precision; there is nothing to choose

    @property
    def usable(self) -> bool:
        """Whether plans can be loaded and built there."""
        return self.available and bool(self.tensorrt)

    @classmethod
    def from_reply(cls, reply: Mapping[str, Any]) -> GpuFacts:
        """The facts out of a host's reply to `facts`."""
        major, minor = (*reply.get("compute_capability", ()), 0, 0)[:2]
        return cls(
            available=bool(reply.get("available")),
            code=str(reply.get("code", "")),
            text=str(reply.get("text", "")),
            tensorrt=str(reply.get("tensorrt", "")),
            api=str(reply.get("api", "")),
            cuda_driver=int(reply.get("cuda_driver", 0)),
            cuda_runtime=int(reply.get("cuda_runtime", 0)),
            plugins=tuple(str(digest) for digest in reply.get("plugins", ())),
            device=str(reply.get("device", "")),
            compute_capability=(int(major), int(minor)),
            multiprocessors=int(reply.get("multiprocessors", 0)),
            memory_bytes=int(reply.get("memory_bytes", 0)),
            integrated=bool(reply.get("integrated")),
            fp16=bool(reply.get("fp16")),
            int8=bool(reply.get("int8")),
            bf16=bool(reply.get("bf16")),
            dla_cores=int(reply.get("dla_cores", 0)),
            strongly_typed_only=bool(reply.get("strongly_typed_only")),
        )
