"""A model as this protocol speaks of it: what the registry hands out, and nothing of how it is run."""

from __future__ import annotations

from typing import Any, Dict, Optional, Protocol, Tuple

from edge_agent.domain.tensors import TensorSpec


class Table(Protocol):
    """A table of a model's configuration with Triton's own names."""

    def model_dump(self) -> Dict[str, Any]:
        """Its keys and values."""


class ModelSettings(Protocol):
    """What the configuration of a model says beyond its tensors."""

    @property
    def instances(self) -> int:
        """Copies of the model."""

    @property
    def default_model_filename(self) -> str:
        """Name of the model file; empty for the platform's usual one."""

    @property
    def dynamic_batching(self) -> Optional[Table]:
        """The dynamic batcher, None when off."""

    @property
    def version_policy(self) -> Table:
        """Which versions are served."""

    @property
    def labels(self) -> Tuple[str, ...]:
        """Names of the classes by index."""


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
