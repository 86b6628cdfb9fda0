"""What a model's configuration says about its plan: keys by precision, and the order for the builder."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

from edge_agent.config.model_config import ModelConfig
from edge_agent.config.optimization import BuildConfig
from edge_agent.domain.gpu import GpuFacts
from edge_agent.domain.tensors import TensorSpec
from edge_agent.engines.build_order import MIB, BuildOrder, ProfileRange
from edge_agent.engines.plans.key import PlanKey, PlanRecipe, PlanTarget

#: what comes after a precision that cannot be had
_WIDER = {"int8": "fp16", "fp16": "fp32"}
_LEAST_WORKSPACE_MB = 16
_LARGER = 4  #: times the default, where nobody has said how much the builder may use


def build_config(config: ModelConfig) -> BuildConfig:
    """`[build]`, or Triton's words for it, or the defaults."""
    return config.build_values or BuildConfig()


def strongly_typed(build: BuildConfig, facts: GpuFacts) -> bool:
    """Whether the model's own datatypes rule."""
    return facts.strongly_typed_only if build.strongly_typed == "auto" else bool(build.strongly_typed)


def precisions(build: BuildConfig, facts: GpuFacts) -> Tuple[str, ...]:
    """What is built, best first; more than one only where falling is allowed."""
    chain: List[str] = [_first(build, facts)]
    while build.precision_fallback and not strongly_typed(build, facts) and chain[-1] in _WIDER:
        chain.append(_WIDER[chain[-1]])
    return tuple(chain)


def _first(build: BuildConfig, facts: GpuFacts) -> str:
    """What is asked for. A default asks for nothing that this board or this TensorRT cannot give."""
    if "precision" in build.model_fields_set or (facts.fp16 and not strongly_typed(build, facts)):
        return build.precision
    return "fp32"


def keys(
    config: ModelConfig, facts: GpuFacts, target: PlanTarget, model: str, calibration: str
) -> Tuple[Tuple[str, PlanKey], ...]:
    """A key for each precision. `model` and `calibration` are digests."""
    build = build_config(config)
    usual = _usual_batch_size(config)
    return tuple(
        (
            precision,
            PlanKey(
                model,
                target,
                PlanRecipe(
                    precision=precision,
                    strongly_typed=strongly_typed(build, facts),
                    calibration=calibration if precision == "int8" else "",
                    profiles=_plain_profiles(build),
                    max_batch_size=-1 if config.max_batch_size is None else config.max_batch_size,
                    inputs={spec.name: spec.shape for spec in _inputs(config)},
                    workspace_mb=build.workspace_mb,
                    optimization_level=-1 if build.optimization_level == "auto" else int(build.optimization_level),
                    flags=("usual_batch_size=%d" % usual,) if usual else (),
                    dla_core=build.dla_core,
                ),
            ),
        )
        for precision in precisions(build, facts)
    )


def order(
    label: str, onnx: Path, config: ModelConfig, precision: str, output: Path, timing_cache: Path, model_bytes: int
) -> BuildOrder:
    """What the builder is told."""
    build = build_config(config)
    calibration = calibration_file(config, onnx, precision)
    return BuildOrder(
        label=label,
        onnx_path=str(onnx),
        output_path=str(output),
        precision=precision,
        workspace_bytes=_workspaces(build.workspace_mb),
        larger_workspace_bytes=0 if "workspace_mb" in build.model_fields_set else _LARGER * build.workspace_mb * MIB,
        max_batch_size=config.max_batch_size,
        usual_batch_size=_usual_batch_size(config),
        profiles=tuple(
            {name: ProfileRange(one.min, one.opt, one.max) for name, one in profile.items()} for profile in build.profiles
        ),
        inputs=_inputs(config),
        dla_core=build.dla_core,
        strongly_typed=None if build.strongly_typed == "auto" else bool(build.strongly_typed),
        calibration_path="" if calibration is None else str(calibration),
        timing_cache_path=str(timing_cache),
        optimization_level=None if build.optimization_level == "auto" else int(build.optimization_level),
        timeout_s=build.timeout_s,
        model_bytes=model_bytes,
    )


def _inputs(config: ModelConfig) -> Tuple[TensorSpec, ...]:
    return tuple(spec.spec(config.max_batch_size != 0) for spec in config.input)


def _workspaces(megabytes: int) -> Tuple[int, ...]:
    """Halves, down to what no build does without."""
    sizes = [megabytes]
    while sizes[-1] // 2 >= _LEAST_WORKSPACE_MB:
        sizes.append(sizes[-1] // 2)
    return tuple(size * MIB for size in sizes)


def _usual_batch_size(config: ModelConfig) -> int:
    preferred = config.dynamic_batching.preferred_batch_size if config.dynamic_batching is not None else ()
    return max(preferred, default=0)


def _plain_profiles(build: BuildConfig) -> Tuple[Dict[str, Dict[str, Tuple[int, ...]]], ...]:
    return tuple({name: _plain(one) for name, one in profile.items()} for profile in build.profiles)


def _plain(profile: Any) -> Dict[str, Tuple[int, ...]]:
    return {"min": profile.min, "opt": profile.opt, "max": profile.max}


def calibration_file(config: ModelConfig, onnx: Path, precision: str) -> Optional[Path]:
    """The cache of INT8 calibration that a plan of this precision is made with."""
    name = build_config(config).calibration
    return onnx.parent.parent / name if name and precision == "int8" else None


def file_sha256(path: Path) -> str:
    """Of a small file; where it cannot be read, of its path: what is missing the builder tells of this one alone. File work."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return hashlib.sha256(b"missing " + os.fsencode(str(path))).hexdigest()


def demands(config: ModelConfig, directory: Path) -> str:
    """Digest of what a plan must fulfil to serve: `[accept]` and its golden files, by their sizes and times. File work."""
    accept, folder = config.accept, golden_folder(config, directory)
    if accept is None or (folder is None and accept.max_abs_error is None and accept.max_p95_ms is None):
        return ""
    try:
        seen = [(path.name, path.stat()) for path in sorted(folder.iterdir())] if folder is not None else []
    except OSError:
        seen = []  # the check will tell
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in seen]
    said = json.dumps(["" if folder is None else str(folder), accept.max_abs_error, accept.max_p95_ms, files])
    return hashlib.sha256(said.encode()).hexdigest()[:32]


def golden_folder(config: ModelConfig, directory: Path) -> Optional[Path]:
    """Where `[accept]` says that inputs and expected outputs lie."""
    said = config.accept.golden if config.accept is not None else ""
    return directory / said if said else None
