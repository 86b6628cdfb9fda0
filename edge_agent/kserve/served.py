"""A model as this protocol speaks of it: what the registry hands out, and nothing of how it is run."""

from __future__ import annotations

from typing import Any, Dict, Protocol, Tuple

from edge_agent.domain.tensors import TensorSpec


class ModelSettings(Protocol):
    """What the configuration of a model says beyond its tensors."""

    def labels_of(self, output: str) -> Tuple[str, ...]:
        """Names of an output's classes by index."""


class ServedModel(Protocol):
    """A version of a model as the registry hands it out."""

    @property
    def name(self) -> str:
        """The model's name."""

    @property
    def version(self) -> str:
        """Digits."""

    @property
    def platform(self) -> str:
        """onnxruntime_onnx, tensorrt_plan, python."""

    @property
    def max_batch_size(self) -> int:
        """0 for a model that does not batch."""

    @property
    def inputs(self) -> Tuple[TensorSpec, ...]:
        """Inputs, batch dimension included."""

    @property
    def outputs(self) -> Tuple[TensorSpec, ...]:
        """Outputs likewise."""

    @property
    def config(self) -> ModelSettings:
        """The rest of its configuration."""

    def config_json(self) -> Dict[str, Any]:
        """Its whole configuration in the form of Triton's ModelConfig."""
