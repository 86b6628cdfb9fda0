"""Which engine host runs what of a version that TensorRT should serve, and how a plan of it is tried."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

from edge_agent.config.model_config import ModelConfig
from edge_agent.engines.plans.sidecar import Sidecar
from edge_agent.serving.healing.proof import Candidate
from edge_agent.serving.loading import Loader
from edge_agent.serving.version import ServedVersion

#: in this order, the first that runs under the agent's own Python: an old one has an old ONNX Runtime
_ONNX_HOSTS = ("cpu", "onnxruntime")
_OWN_ONNX_HOST = "onnxruntime-own"


class Places:
    """Names of hosts by what they are for."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    @staticmethod
    def gpu(config: ModelConfig) -> str:
        """Where plans run."""
        return config.host_name("tensorrt_plan")

    def onnx(self) -> str:
        """Where ONNX Runtime stands in."""
        return next((name for name in _ONNX_HOSTS if not self._loader.python(name)), _OWN_ONNX_HOST)

    def python(self, config: ModelConfig) -> str:
        """The interpreter that builds: the one that will run the plan."""
        return self._loader.python(self.gpu(config))

    def candidate(self, version: ServedVersion, path: Path, sidecar: Sidecar, truth: str) -> Candidate:
        """A plan of the version, to be tried. `truth`: digest of the ONNX model that it is made of; empty: of none."""
        typed = bool(sidecar.report.get("strongly_typed"))
        return Candidate(
            of=version,
            path=path,
            gpu_host=self.gpu(version.config),
            onnx_host=self.onnx(),
            precision="fp16" if typed else sidecar.precision,
            sha256=sidecar.sha256,
            sizes=_usual_sizes(sidecar.report),
            truth=truth,
        )


def _usual_sizes(report: Mapping[str, Any]) -> Dict[str, Sequence[int]]:
    """The sizes of its first profile that it is made fastest for."""
    profiles = report.get("profiles")
    if not isinstance(profiles, list) or not profiles or not isinstance(profiles[0], dict):
        return {}
    found = {name: one.get("opt") for name, one in profiles[0].items() if isinstance(one, dict)}
    return {name: sizes for name, sizes in found.items() if isinstance(sizes, list)}
