"""What the builder is told to make, how far it is, and what came of it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from edge_agent.domain.tensors import TensorSpec

MIB = 1 << 20


@dataclass(frozen=True)
class ProfileRange:
    """Sizes of one dynamic input in an optimization profile; for an input that holds a shape, its values."""

    min: Tuple[int, ...]
    opt: Tuple[int, ...]
    max: Tuple[int, ...]


#: input name to its sizes
Profile = Mapping[str, ProfileRange]


@dataclass(frozen=True)
class BuildOrder:
    """One plan to be made of one ONNX file."""

    label: str  #: NAME/VERSION, for people
    onnx_path: str
    output_path: str  #: a temporary file beside the final place; it is gone when the build fails
    precision: str = "fp16"  #: fp32 | fp16 | int8
    workspace_bytes: Tuple[int, ...] = (256 * MIB,)  #: tried from the largest down when memory runs out
    larger_workspace_bytes: int = 0  #: tried where a layer has no kernel with less, if memory allows; 0: never
    max_batch_size: Optional[int] = None  #: 0: no batch dimension; None: as the file says, as in LoadOrder
    usual_batch_size: int = 0  #: what the plan is made fastest for; 0: the largest
    profiles: Tuple[Profile, ...] = ()  #: given ones; empty: derived from the file and `inputs`
    inputs: Tuple[TensorSpec, ...] = ()  #: as configured
    dla_core: int = -1  #: -1: the GPU
    strongly_typed: Optional[bool] = None  #: None: only where TensorRT knows nothing else (11 on)
    calibration_path: str = ""  #: INT8 calibration cache; empty: the model has Q/DQ nodes of its own
    timing_cache_path: str = ""  #: read if it is there, written anew; empty: none
    optimization_level: Optional[int] = None  #: 0 to 5 where TensorRT has it (8.6 on); None: its default
    memory_floor_bytes: int = 256 * MIB  #: the build ends when the machine has less than this available
    timeout_s: float = 3600.0
    expected_s: float = 0.0  #: what a build of it took before, for the estimate; 0: unknown
    model_bytes: int = 0  #: size of the model with its external data; 0: looked up

    @property
    def timing_temporary(self) -> str:
        """Where the timing cache is written before it takes its place; empty: there is none."""
        folder, name = os.path.split(self.timing_cache_path)
        return os.path.join(folder, ".%s.%d.tmp" % (name, os.getpid())) if name else ""

    def fields(self, workspaces: Sequence[int], larger: int = 0, memory_short: bool = False) -> Dict[str, Any]:
        """The control message's fields, with these of its workspace sizes. `memory_short`: it makes do without libraries."""
        return {
            "label": self.label,
            "onnx": self.onnx_path,
            "output": self.output_path,
            "precision": self.precision,
            "workspaces": list(workspaces),
            "larger_workspace": larger,
            "memory_short": memory_short,
            "max_batch_size": self.max_batch_size,
            "usual_batch_size": self.usual_batch_size,
            "profiles": [_profile_fields(profile) for profile in self.profiles],
            "inputs": [{"name": spec.name, "shape": list(spec.shape)} for spec in self.inputs],
            "dla_core": self.dla_core,
            "strongly_typed": self.strongly_typed,
            "calibration": self.calibration_path,
            "timing_cache": self.timing_cache_path,
            "timing_temporary": self.timing_temporary,
            "optimization_level": self.optimization_level,
            "expected_s": self.expected_s,
        }


@dataclass(frozen=True)
class BuildProgress:
    """How far a build is."""

    phase: str  #: waiting | parse | build | serialize
    percent: float = 0.0
    eta_s: Optional[float] = None  #: None where nothing tells
    text: str = ""  #: what it waits for, or does again


@dataclass(frozen=True)
class BuildReport:
    """What a build has made."""

    precision: str
    workspace_bytes: int  #: with which it succeeded
    seconds: float
    peak_rss_bytes: int
    profiles: Tuple[Profile, ...]  #: as built, the derived one too
    io: Tuple[Dict[str, Any], ...]  #: name, mode (input, output), datatype, shape (-1: any size)
    strongly_typed: bool = False
    warnings: Tuple[str, ...] = ()

    @classmethod
    def read(cls, reply: Mapping[str, Any]) -> BuildReport:
        """The report out of the builder's reply; KeyError, TypeError or ValueError when it is none."""
        return cls(
            precision=str(reply["precision"]),
            workspace_bytes=int(reply["workspace_bytes"]),
            seconds=float(reply["seconds"]),
            peak_rss_bytes=int(reply["peak_rss_bytes"]),
            profiles=tuple(_profile(fields) for fields in reply["profiles"]),
            io=tuple(dict(tensor) for tensor in reply["io"]),
            strongly_typed=bool(reply["strongly_typed"]),
            warnings=tuple(str(text) for text in reply["warnings"]),
        )

    def as_json(self) -> Dict[str, Any]:
        """For a sidecar; `read` understands it."""
        return {
            "precision": self.precision,
            "workspace_bytes": self.workspace_bytes,
            "seconds": self.seconds,
            "peak_rss_bytes": self.peak_rss_bytes,
            "profiles": [_profile_fields(profile) for profile in self.profiles],
            "io": [dict(tensor) for tensor in self.io],
            "strongly_typed": self.strongly_typed,
            "warnings": list(self.warnings),
        }


def _profile_fields(profile: Profile) -> Dict[str, Dict[str, Any]]:
    return {name: {"min": list(sizes.min), "opt": list(sizes.opt), "max": list(sizes.max)} for name, sizes in profile.items()}


def _profile(fields: Mapping[str, Mapping[str, Any]]) -> Profile:
    def dims(values: Sequence[Any]) -> Tuple[int, ...]:
        return tuple(int(value) for value in values)

    return {name: ProfileRange(dims(sizes["min"]), dims(sizes["opt"]), dims(sizes["max"])) for name, sizes in fields.items()}
