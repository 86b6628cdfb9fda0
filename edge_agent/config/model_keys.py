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


_NO_TENSORRT = "TensorRT comes in a later version"
_NO_GPU = "runs on the CPU in this version"

#: the model is served as if they were silent; a warning names them
IGNORED: Tuple[Unserved, ...] = (
    Unserved(("optimization", "graph"), "ONNX Runtime's own level is used", off=({}, {"level": 0})),
    Unserved(("optimization", "priority"), _NO_TENSORRT, off=("PRIORITY_DEFAULT",)),
    Unserved(("optimization", "cuda"), _NO_TENSORRT, off=({},)),
    Unserved(
        ("optimization", "execution_accelerators", "gpu_execution_accelerator"),
        "%s; the values of `tensorrt` are kept as [build]" % _NO_TENSORRT,
        off=([],),
    ),
    Unserved(
        ("optimization", "execution_accelerators", "cpu_execution_accelerator"),
        "ONNX Runtime's CPU provider is used",
        off=([],),
    ),
    Unserved(("optimization", "input_pinned_memory"), "tensors lie in shared memory", off=({},)),
    Unserved(("optimization", "output_pinned_memory"), "tensors lie in shared memory", off=({},)),
    Unserved(("optimization", "gather_kernel_buffer_threshold"), _NO_TENSORRT, off=(0,)),
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
    Unserved(("instance_group", "*", "kind"), _NO_GPU, values=("KIND_GPU",)),
    Unserved(("instance_group", "*", "gpus"), _NO_GPU, off=([],)),
    Unserved(("instance_group", "*", "profile"), _NO_TENSORRT, off=([],)),
    Unserved(("instance_group", "*", "passive"), "the instances take requests like all others", off=(False,)),
    Unserved(("instance_group", "*", "rate_limiter"), "there is no rate limiter in this version", off=({},)),
    Unserved(("instance_group", "*", "secondary_devices"), _NO_TENSORRT, off=([],)),
    Unserved(("instance_group", "*", "host_policy"), "the system decides which core runs it", off=("",)),
    Unserved(
        ("model_warmup",), "each instance is run with zeros before it is ready, with one row and with max_batch_size", off=([],)
    ),
    Unserved(("ensemble_scheduling", "max_inflight_responses"), "no model here is decoupled", off=(0,)),
    Unserved(("ensemble_scheduling", "max_inflight_requests"), "no model here is decoupled", off=(0,)),
    Unserved(
        ("parameters", "EXECUTION_ENV_PATH"), "say the interpreter by [hosts.NAME] python, and that host in the model's config"
    ),
    Unserved(("build",), _NO_TENSORRT),
    Unserved(("accept",), "versions are not yet compared before they are served"),
)

_SHAPE_TENSOR = "shape tensors exist with TensorRT only, which comes in a later version: use the ONNX model"
_NON_LINEAR = "formats of TensorRT's own come in a later version: use the ONNX model"
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
    return tuple("%s (%s)" % pair for pair in _found(tables, IGNORED))


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
