"""Triton's ModelConfig keys that this version does not use, and those it cannot serve without, with a word on each."""

from __future__ import annotations

import copy
from typing import Any, Dict, Iterator, NamedTuple, Optional, Sequence, Tuple

from edge_agent.config import later
from edge_agent.config.faults import shown


class Unserved(NamedTuple):
    """One such key."""

    path: Tuple[str, ...]  #: `*` is any entry of a list or of a table
    why: str
    off: Tuple[Any, ...] = ()  #: values that ask for nothing
    values: Optional[Tuple[Any, ...]] = None  #: only these ask for something

    def asks(self, value: Any) -> bool:
        """Whether the value asks for something."""
        return later.among(value, self.values) if self.values is not None else not later.among(value, self.off)


_CPU = "ONNX Runtime and Python models run on the CPU; only TensorRT uses it"
_PLANS = "the agent keeps its plans by itself"
_ACCELERATORS = ("optimization", "execution_accelerators", "gpu_execution_accelerator")

#: the same, but for models that TensorRT runs: there they are used
_IGNORED_ON_CPU: Tuple[Unserved, ...] = (
    Unserved(("optimization", "cuda"), _CPU, off=({},)),
    Unserved(_ACCELERATORS, "`tensorrt` is used where platform is silent or tensorrt_plan, as [build]", off=([],)),
    Unserved(("instance_group", "*", "kind"), _CPU, values=("KIND_GPU",)),
    Unserved(("instance_group", "*", "gpus"), _CPU, off=([],)),
    Unserved(("instance_group", "*", "profile"), _CPU, off=([],)),
    Unserved(("instance_group", "*", "secondary_devices"), _CPU, off=([],)),
    Unserved(("build",), "the platform is another one: leave platform out, or say tensorrt_plan"),
)

_IGNORED_ALWAYS: Tuple[Unserved, ...] = (
    Unserved(("optimization", "graph"), "the engine's own level is used; [build] optimization_level", off=({}, {"level": 0})),
    Unserved(("optimization", "priority"), "all models share the GPU alike", off=("PRIORITY_DEFAULT",)),
    Unserved(("optimization", "cuda", "graph_spec"), "sizes that repeat are captured by themselves", off=([],)),
    Unserved(("optimization", "cuda", "output_copy_stream"), "each instance has a stream of its own", off=(False,)),
    Unserved((*_ACCELERATORS, "*", "name"), "only `tensorrt` is used", off=("tensorrt",)),
    Unserved((*_ACCELERATORS, "*", "parameters", "max_cached_engines"), _PLANS),
    Unserved((*_ACCELERATORS, "*", "parameters", "trt_engine_cache_enable"), _PLANS),
    Unserved((*_ACCELERATORS, "*", "parameters", "trt_engine_cache_path"), _PLANS),
    Unserved((*_ACCELERATORS, "*", "parameters", "minimum_segment_size"), "TensorRT takes the whole model"),
    Unserved(
        ("optimization", "execution_accelerators", "cpu_execution_accelerator"),
        "ONNX Runtime's CPU provider is used",
        off=([],),
    ),
    Unserved(("optimization", "input_pinned_memory"), "the engine takes what is fastest on the board", off=({},)),
    Unserved(("optimization", "output_pinned_memory"), "the engine takes what is fastest on the board", off=({},)),
    Unserved(("optimization", "gather_kernel_buffer_threshold"), "rows are copied straight into the engine's memory", off=(0,)),
    Unserved(
        ("optimization", "eager_batching"), "the next batch is always made ready before the running one ends", off=(False,)
    ),
    Unserved(("runtime",), "the agent chooses what runs the model", off=("",)),
    Unserved(("metric_tags",), "metrics have the labels model and version only", off=({},)),
    Unserved(("model_metrics",), "the agent's own histograms are given", off=({},)),
    Unserved(("cc_model_filenames",), "default_model_filename is used", off=({},)),
    Unserved(("model_repository_agents",), "agents of the repository are not called", off=({}, {"agents": []})),
    Unserved(("input", "*", "format"), "the order of the sizes is taken from dims", off=("FORMAT_NONE",)),
    Unserved(("input", "*", "optional"), "each request must send it", off=(False,)),
    Unserved(("instance_group", "*", "passive"), "the instances take requests like all others", off=(False,)),
    Unserved(("instance_group", "*", "rate_limiter"), "there is no rate limiter in this version", off=({},)),
    Unserved(("instance_group", "*", "host_policy"), "the system decides which core runs it", off=("",)),
    Unserved(
        ("model_warmup",), "each instance is run with zeros before it is ready, with one row and with max_batch_size", off=([],)
    ),
    Unserved(("ensemble_scheduling", "max_inflight_responses"), "no model here is decoupled", off=(0,)),
    Unserved(("ensemble_scheduling", "max_inflight_requests"), "no model here is decoupled", off=(0,)),
    Unserved(
        ("parameters", "EXECUTION_ENV_PATH"), "say the interpreter by [hosts.NAME] python, and that host in the model's config"
    ),
)

#: the model is served as if they were silent; a warning names them
IGNORED: Tuple[Unserved, ...] = (*_IGNORED_ALWAYS, *_IGNORED_ON_CPU)

_SHAPE_TENSOR = "no request can carry a shape tensor: give the sizes in the model"
_NON_LINEAR = "no request can carry a format of TensorRT's own: leave the tensor linear"
_RAGGED = "ragged batches come in a later version: pad the input to one shape, or use a Python model"
_RESHAPE = "reshaping comes in a later version: put the shape that the model file has into dims"

#: without them the model would answer something else than asked, so it is not served
REFUSED: Tuple[Unserved, ...] = (
    Unserved(
        ("sequence_batching",), "sequence batching comes in a later version: keep the state in the client, send it as an input"
    ),
    Unserved(
        ("model_transaction_policy", "decoupled"),
        "a decoupled model sends any number of answers, which HTTP here cannot: return one response for each request",
        off=(False,),
    ),
    Unserved(("batch_input",), _RAGGED, off=([],)),
    Unserved(("batch_output",), _RAGGED, off=([],)),
    Unserved(
        ("model_operations", "op_library_filename"),
        "libraries of operations are not loaded: use standard ONNX operations, or a Python model",
        off=([],),
    ),
    Unserved(("input", "*", "allow_ragged_batch"), _RAGGED, off=(False,)),
    Unserved(("input", "*", "is_shape_tensor"), _SHAPE_TENSOR, off=(False,)),
    Unserved(("input", "*", "is_non_linear_format_io"), _NON_LINEAR, off=(False,)),
    Unserved(("input", "*", "reshape"), _RESHAPE),
    Unserved(("output", "*", "is_shape_tensor"), _SHAPE_TENSOR, off=(False,)),
    Unserved(("output", "*", "is_non_linear_format_io"), _NON_LINEAR, off=(False,)),
    Unserved(("output", "*", "reshape"), _RESHAPE),
)


def ignored(tables: Dict[str, Any]) -> Tuple[str, ...]:
    """`key (why)` for each key that is there and does nothing."""
    table = _IGNORED_ALWAYS if _tensorrt(tables) else IGNORED
    return tuple("%s (%s)" % pair for pair in _found(tables, table))


def _tensorrt(tables: Dict[str, Any]) -> bool:
    """Whether the configuration itself says that TensorRT runs the model."""
    said = tables.get("platform") or tables.get("backend")
    if said:
        return said in ("tensorrt_plan", "tensorrt")
    return "build" in tables or any(
        holder["name"] == "tensorrt" for holder, _ in later.holders(tables, (*_ACCELERATORS, "*", "name"))
    )


def refused(tables: Dict[str, Any]) -> Tuple[str, ...]:
    """`key: why` for each key that the model cannot be served with."""
    tables = copy.deepcopy(tables)
    for tensor in [*tables.get("input", ()), *tables.get("output", ())]:
        if isinstance(tensor, dict) and tensor.get("reshape") in ({"shape": tensor.get("dims")}, None):
            tensor.pop("reshape", None)  # it changes nothing
    return tuple("%s: %s" % pair for pair in _found(tables, REFUSED))


def _found(tables: Dict[str, Any], table: Sequence[Unserved]) -> Iterator[Tuple[str, str]]:
    for unserved in table:
        for holder, location in later.holders(tables, unserved.path):
            if unserved.asks(holder[unserved.path[-1]]):
                yield shown(location, tables), unserved.why
