"""`instance_group` and `model_warmup` of a model, with Triton's names."""

from __future__ import annotations

from typing import Any, Dict, Literal, Optional, Tuple

from pydantic import Field, model_validator

from edge_agent.config.section import Int32, Int64, Section, Uint32
from edge_agent.config.tensors import ValidDataType


class RateLimiterResource(Section):
    """Something that an instance needs to itself."""

    name: str = Field("", description="name of the resource")
    is_global: bool = Field(False, alias="global", description="shared by all devices")
    count: Uint32 = Field(0, description="how many of it an instance takes")


class RateLimiter(Section):
    """Which instances run at the same time."""

    resources: Tuple[RateLimiterResource, ...] = Field((), description="what an instance needs to run")
    priority: Uint32 = Field(0, description="weight of its turns; 2 has half as many as 1")


class SecondaryDevice(Section):
    """A core beside the GPU."""

    kind: Literal["KIND_NVDLA"] = Field("KIND_NVDLA", description="kind of the core")
    device_id: Int64 = Field(0, description="number of the core")


class InstanceGroup(Section):
    """Copies of the model that run side by side."""

    name: str = Field("", description="name of the group")
    kind: Literal["KIND_AUTO", "KIND_GPU", "KIND_CPU", "KIND_MODEL"] = Field("KIND_AUTO", description="where they run")
    count: int = Field(1, ge=0, le=64, description="how many; 0 counts as silent")
    gpus: Tuple[Int32, ...] = Field((), description="numbers of the GPUs")
    profile: Tuple[str, ...] = Field((), description="optimization profiles of a TensorRT plan")
    passive: bool = Field(False, description="takes no requests")
    rate_limiter: Optional[RateLimiter] = Field(None, description="which instances run at the same time")
    secondary_devices: Tuple[SecondaryDevice, ...] = Field((), description="cores beside the GPU, such as a DLA")
    host_policy: str = Field("", description="where on the machine it runs")

    @property
    def copies(self) -> int:
        """How many there are; protobuf cannot tell a 0 from silence, which means 1."""
        return self.count or 1


class WarmupInput(Section):
    """What one input is in a sample."""

    data_type: ValidDataType = Field(description="TYPE_FP32 and so on")
    dims: Tuple[Int64, ...] = Field((), description="sizes, without the batch dimension")
    zero_data: Optional[bool] = Field(None, description="zeros")
    random_data: Optional[bool] = Field(None, description="random numbers; text: empty")
    input_data_file: Optional[str] = Field(None, description="a file in the folder `warmup`")

    @model_validator(mode="after")
    def _one_kind(self) -> Any:
        if sum(kind is not None for kind in (self.zero_data, self.random_data, self.input_data_file)) != 1:
            raise ValueError("takes one of zero_data, random_data, input_data_file")
        if any(size < 1 for size in self.dims):
            raise ValueError("dims: each size should be at least 1, a sample has no open ones")
        return self


class Warmup(Section):
    """A sample that is run before the model counts as ready."""

    name: str = Field("", description="name of the sample")
    batch_size: int = Field(1, ge=0, le=4096, description="rows; 0 counts as silent")
    inputs: Dict[str, WarmupInput] = Field(default_factory=dict, description="what each input is")
    count: int = Field(0, ge=0, le=10_000, description="how often it is run; 0 is once")
