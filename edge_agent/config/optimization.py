"""`optimization` of a model as Triton has it, and `[build]`, in which the agent keeps what concerns TensorRT."""

from __future__ import annotations

from typing import Dict, Literal, Mapping, Optional, Tuple, Union

from pydantic import Field, field_validator

from edge_agent.config.section import Int32, Int64, Section, Uint32


class Graph(Section):
    """How hard the engine optimizes."""

    level: Int32 = Field(0, description="-1: less, 0: as the engine sees fit, 1 and more: more")


class Shape(Section):
    """Sizes of one input."""

    dim: Tuple[Int64, ...] = Field((), description="the sizes")


class LowerBound(Section):
    """The smallest sizes that a captured graph is for."""

    batch_size: Int32 = Field(0, description="rows")
    input: Dict[str, Shape] = Field(default_factory=dict, description="sizes by input")


class GraphSpec(Section):
    """Sizes that a CUDA graph is captured for."""

    batch_size: Int32 = Field(0, description="rows")
    input: Dict[str, Shape] = Field(default_factory=dict, description="sizes by input")
    graph_lower_bound: Optional[LowerBound] = Field(None, description="the smallest sizes it is also used for")


class Cuda(Section):
    """CUDA graphs and streams."""

    graphs: bool = Field(False, description="CUDA graphs are captured")
    busy_wait_events: bool = Field(False, description="waits without sleeping")
    graph_spec: Tuple[GraphSpec, ...] = Field((), description="sizes to capture; empty: the usual ones")
    output_copy_stream: bool = Field(False, description="outputs are copied on a stream of their own")


class Accelerator(Section):
    """One execution provider."""

    name: str = Field("", description="name of the provider")
    parameters: Dict[str, str] = Field(default_factory=dict, description="its settings")


class ExecutionAccelerators(Section):
    """What ONNX Runtime hands parts of the graph to."""

    gpu_execution_accelerator: Tuple[Accelerator, ...] = Field((), description="where an instance is on a GPU")
    cpu_execution_accelerator: Tuple[Accelerator, ...] = Field((), description="where an instance is on the CPU")


class PinnedMemory(Section):
    """Whether copies go through pinned memory."""

    enable: bool = Field(False, description="copies go through pinned memory")


class Optimization(Section):
    """How the engine is made fast."""

    graph: Optional[Graph] = Field(None, description="how hard the engine optimizes")
    priority: Literal["PRIORITY_DEFAULT", "PRIORITY_MAX", "PRIORITY_MIN"] = Field(
        "PRIORITY_DEFAULT", description="priority of the model on the GPU"
    )
    cuda: Optional[Cuda] = Field(None, description="CUDA graphs and streams")
    execution_accelerators: Optional[ExecutionAccelerators] = Field(
        None, description="what ONNX Runtime hands parts of the graph to"
    )
    input_pinned_memory: Optional[PinnedMemory] = Field(None, description="copies of inputs")
    output_pinned_memory: Optional[PinnedMemory] = Field(None, description="copies of outputs")
    gather_kernel_buffer_threshold: Uint32 = Field(0, description="pieces from which a kernel joins them; 0: none")
    eager_batching: bool = Field(False, description="the next batch is made ready early")

    def tensorrt(self) -> Optional[Mapping[str, str]]:
        """The parameters of the accelerator `tensorrt`, None without it."""
        accelerators = self.execution_accelerators
        for accelerator in accelerators.gpu_execution_accelerator if accelerators is not None else ():
            if accelerator.name == "tensorrt":
                return accelerator.parameters
        return None


class BuildProfile(Section):
    """Sizes of one input in an optimization profile."""

    min: Tuple[Int64, ...] = Field(description="the smallest")
    opt: Tuple[Int64, ...] = Field(description="the usual")
    max: Tuple[Int64, ...] = Field(description="the largest")


class BuildConfig(Section):
    """How a TensorRT plan is built on the device."""

    precision: Literal["fp32", "fp16", "int8"] = Field(
        "fp16", description="numbers of the plan; silent: fp16 where board and TensorRT have it, else fp32"
    )
    precision_fallback: bool = Field(False, description="takes the next wider precision where that one cannot be had")
    strongly_typed: Union[Literal["auto"], bool] = Field(
        "auto", description="the model's own datatypes rule, not precision; auto: where TensorRT knows nothing else"
    )
    calibration: str = Field("", description="cache of INT8 calibration, a file in the model's folder")
    workspace_mb: int = Field(256, ge=1, le=1_048_576, description="memory that the builder may use")
    profiles: Tuple[Dict[str, BuildProfile], ...] = Field((), description="sizes that the plan is made for")
    dla_core: int = Field(-1, ge=-1, le=7, description="the DLA core; -1: the GPU")
    optimization_level: Union[Literal["auto"], int] = Field(
        "auto", description="0 to 5: how long the builder looks for faster ways; auto: TensorRT's own"
    )
    cuda_graphs: bool = Field(True, description="sizes that repeat are run as CUDA graphs")
    timeout_s: float = Field(7200.0, gt=0, le=86_400, description="a build that takes longer is ended")

    @field_validator("optimization_level")
    @classmethod
    def _level(cls, level: Union[str, int]) -> Union[str, int]:
        if level == "auto" or (isinstance(level, int) and not isinstance(level, bool) and 0 <= level <= 5):
            return level
        raise ValueError('should be "auto" or 0 to 5')

    @field_validator("calibration")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError("should be the name of a file in the model's folder")
        return name


class AcceptConfig(Section):
    """What must hold before a version or a plan serves; with this table a newer version is compared with the one before it."""

    golden: str = Field("", description="folder with inputs and expected outputs")
    max_abs_error: Optional[float] = Field(None, ge=0, description="largest difference to the expected outputs")
    max_p95_ms: Optional[float] = Field(None, gt=0, description="longest time of 95 of 100 runs")
    shadow_requests: int = Field(100, ge=1, le=1_000_000, description="requests that a new version is compared on")
    min_agreement: float = Field(0.9, ge=0, le=1, description="share of them on which both must agree")
    shadow_timeout_s: float = Field(86_400.0, gt=0, le=31_536_000, description="so long it waits for that many")


def build_of(parameters: Mapping[str, str], dla_core: int) -> BuildConfig:
    """What Triton's parameters of the accelerator `tensorrt` mean as `[build]`; its own default is FP32 and 1 GiB."""
    precision = parameters.get("precision_mode", "FP32").lower()
    size = parameters.get("max_workspace_size_bytes", "")
    megabytes = int(size) // 2**20 if size.isascii() and size.isdigit() and len(size) < 16 else 1024
    return BuildConfig(
        precision="fp16" if precision == "fp16" else "int8" if precision == "int8" else "fp32",
        workspace_mb=min(max(megabytes, 1), 1_048_576),
        dla_core=dla_core if -1 <= dla_core <= 7 else -1,
    )
