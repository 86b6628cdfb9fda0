"""Triton's ModelConfig keys that this version does not use, and those it cannot serve without."""

from __future__ import annotations

from typing import Tuple

from edge_agent.config.later import Later

#: the model is served as if they were silent; a warning names them
IGNORED: Tuple[Later, ...] = (
    *(
        Later((key,), key)
        for key in (
            "optimization",
            "parameters",
            "metric_tags",
            "model_warmup",
            "model_repository_agents",
            "cc_model_filenames",
            "runtime",
            "build",
            "accept",
        )
    ),
    Later(("response_cache",), "response_cache", switch="enable"),
    Later(("input", "*", "format"), "format", off=("FORMAT_NONE",)),
    Later(("input", "*", "optional"), "optional", off=(False,)),
    Later(("output", "*", "label_filename"), "label_filename", off=("",)),
    *(
        Later(("instance_group", "*", key), key)
        for key in ("name", "kind", "gpus", "profile", "passive", "rate_limiter", "host_policy", "secondary_devices")
    ),
    Later(("dynamic_batching", "preserve_ordering"), "preserve_ordering", off=(False,)),
    Later(("dynamic_batching", "priority_levels"), "priority_levels", off=(0,)),
    Later(("dynamic_batching", "default_priority_level"), "default_priority_level", off=(0,)),
    Later(("dynamic_batching", "priority_queue_policy"), "priority_queue_policy", off=({},)),
)

#: without them the model would answer something else than asked
REFUSED: Tuple[Later, ...] = (
    Later(("ensemble_scheduling",), "an ensemble"),
    Later(("sequence_batching",), "sequence batching"),
    Later(("model_transaction_policy",), "a decoupled model", switch="decoupled"),
    Later(("batch_input",), "ragged batching", off=([],)),
    Later(("batch_output",), "ragged batching", off=([],)),
    Later(("model_operations",), "an engine with operations of its own"),
    Later(("input", "*", "allow_ragged_batch"), "ragged batching", off=(False,)),
    Later(("input", "*", "is_shape_tensor"), "a shape tensor", off=(False,)),
    Later(("input", "*", "is_non_linear_format_io"), "a non-linear format", off=(False,)),
    Later(("input", "*", "reshape"), "reshaping"),
    Later(("output", "*", "is_shape_tensor"), "a shape tensor", off=(False,)),
    Later(("output", "*", "is_non_linear_format_io"), "a non-linear format", off=(False,)),
    Later(("output", "*", "reshape"), "reshaping"),
    Later(
        ("dynamic_batching", "default_queue_policy", "timeout_action"), "serving requests after their time", values=("DELAY", 1)
    ),
)
