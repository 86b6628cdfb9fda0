"""Triton's ModelConfig with the agent's own tables: the one schema of `config.toml` and `config.pbtxt`."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

from pydantic import Field, PrivateAttr, field_validator, model_validator

from edge_agent.config import model_json, platforms
from edge_agent.config.batching import DynamicBatching
from edge_agent.config.ensemble import EnsembleScheduling
from edge_agent.config.image import DecodeConfig, ImageConfig
from edge_agent.config.instances import InstanceGroup, Warmup
from edge_agent.config.model_extras import (
    ModelMetrics,
    Operations,
    Parameter,
    RepositoryAgents,
    ResponseCache,
    TransactionPolicy,
)
from edge_agent.config.optimization import AcceptConfig, BuildConfig, Optimization, build_of
from edge_agent.config.section import Name, Section
from edge_agent.config.sequences import BatchInput, BatchOutput, SequenceBatching
from edge_agent.config.tensors import InputConfig, OutputConfig, TensorConfig
from edge_agent.config.versions import VersionPolicy
from edge_agent.domain.tensors import TensorSpec

#: the agent's own keys, which Triton does not have
OWN_KEYS = ("host", "image", "decode", "build", "accept")


class ModelConfig(Section):
    """What is said about a model; what is not said comes from the model file."""

    name: str = Field("", description="the folder's name, where it is given at all")
    platform: str = Field("", description="kind of model file; empty: by the file that is there")
    backend: str = Field("", description="Triton's other name for the platform: onnxruntime, tensorrt, python")
    runtime: str = Field("", description="how a backend runs the model")
    default_model_filename: str = Field("", description="name of the model file; empty: model.onnx, model.plan, model.py")
    cc_model_filenames: Dict[str, str] = Field(default_factory=dict, description="other names of it by compute capability")
    max_batch_size: Optional[int] = Field(
        None, ge=0, le=4096, description="largest batch; 0: the model does not batch; silent: by the file"
    )
    host: Optional[Name] = Field(None, description="engine host; silent: gpu for TensorRT, cpu for ONNX Runtime, python")
    input: Tuple[InputConfig, ...] = Field((), description="inputs; empty: as the model file says")
    output: Tuple[OutputConfig, ...] = Field((), description="outputs; empty: as the model file says")
    batch_input: Tuple[BatchInput, ...] = Field((), description="inputs made of a ragged batch")
    batch_output: Tuple[BatchOutput, ...] = Field((), description="outputs cut by a ragged batch")
    instance_group: Tuple[InstanceGroup, ...] = Field((), description="copies that run side by side; empty: one")
    dynamic_batching: Optional[DynamicBatching] = Field(
        None, description="how requests are joined; silent: at once, as they come"
    )
    sequence_batching: Optional[SequenceBatching] = Field(None, description="requests that belong together")
    ensemble_scheduling: Optional[EnsembleScheduling] = Field(None, description="the models that an ensemble is made of")
    version_policy: VersionPolicy = Field(
        default_factory=VersionPolicy, description="which versions are served; silent: the newest"
    )
    optimization: Optional[Optimization] = Field(None, description="how the engine is made fast")
    parameters: Dict[str, Parameter] = Field(default_factory=dict, description="values that are handed to a Python model")
    metric_tags: Dict[str, str] = Field(default_factory=dict, description="labels of the model's metrics")
    model_metrics: Optional[ModelMetrics] = Field(None, description="settings of the model's metrics")
    model_warmup: Tuple[Warmup, ...] = Field((), description="samples that are run before the model counts as ready")
    model_operations: Optional[Operations] = Field(None, description="libraries with operations")
    model_transaction_policy: Optional[TransactionPolicy] = Field(None, description="how many answers a request has")
    model_repository_agents: Optional[RepositoryAgents] = Field(None, description="what looks at a model before it is loaded")
    response_cache: Optional[ResponseCache] = Field(None, description="answers are kept for equal requests")
    image: Optional[ImageConfig] = Field(
        None, description="how a picture becomes the input; silent: the model takes no pictures"
    )
    decode: Optional[DecodeConfig] = Field(None, description="what the outputs mean; silent: they are plain tensors")
    build: Optional[BuildConfig] = Field(None, description="how a TensorRT plan is built on the device")
    accept: Optional[AcceptConfig] = Field(None, description="what must hold before a version is promoted")

    _labels: Tuple[str, ...] = PrivateAttr(default=())
    _output_labels: Dict[str, Tuple[str, ...]] = PrivateAttr(default_factory=dict)
    _ignored: Tuple[str, ...] = PrivateAttr(default=())
    _refused: str = PrivateAttr(default="")

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, backend: str) -> str:
        return platforms.known_backend(backend)

    @field_validator("platform")
    @classmethod
    def _known_platform(cls, platform: str) -> str:
        return platforms.known_platform(platform)

    @field_validator("default_model_filename")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError("should be the name of a file in the version's folder")
        return name

    @model_validator(mode="after")
    def _platform_of_backend(self) -> Any:
        platform = platforms.BACKENDS.get(self.backend, self.platform)
        if self.platform and self.platform != platform:
            raise ValueError("platform %s and backend %s are not the same: say one" % (self.platform, self.backend))
        if self.ensemble_scheduling is not None and not platform and not self.backend:
            platform = "ensemble"
        self.__dict__["platform"] = platform  # frozen for everybody else
        return self

    @model_validator(mode="after")
    def _consistent(self) -> Any:
        for kind, tensors in (("input", self.input), ("output", self.output)):
            names = [tensor.name for tensor in tensors]
            if len(set(names)) != len(names):
                raise ValueError("two tensors of `%s` have one name" % kind)
        sizes = self.dynamic_batching.preferred_batch_size if self.dynamic_batching else ()
        if self.max_batch_size is not None and any(size > self.max_batch_size for size in sizes):
            raise ValueError("dynamic_batching.preferred_batch_size: each size should be at most max_batch_size")
        if self.image is not None and self.image.input and self.input and self.image.input not in {i.name for i in self.input}:
            raise ValueError("image.input: no input is called %s" % self.image.input)
        return self

    @model_validator(mode="after")
    def _one_scheduler(self) -> Any:
        keys = ("dynamic_batching", "sequence_batching", "ensemble_scheduling")
        said = [key for key in keys if getattr(self, key) is not None]
        if len(said) > 1:
            raise ValueError("takes one of %s, not %s" % (", ".join(keys), " and ".join(said)))
        if (self.platform == "ensemble") != (self.ensemble_scheduling is not None):
            raise ValueError('platform "ensemble" and ensemble_scheduling belong together: say both')
        if self.ensemble_scheduling is not None:
            if not self.input or not self.output:
                raise ValueError("an ensemble has no file that tells its tensors: say input and output")
            inputs, outputs = [tensor.name for tensor in self.input], [tensor.name for tensor in self.output]
            for fault in self.ensemble_scheduling.faults(inputs, outputs):
                raise ValueError("ensemble_scheduling: %s" % fault)
        return self

    @property
    def labels(self) -> Tuple[str, ...]:
        """Names of the classes by index: from `decode.labels`, else from the first output's `label_filename`."""
        return self._labels or next(iter(self._output_labels.values()), ())

    def labels_of(self, output: str) -> Tuple[str, ...]:
        """Names of the classes of one output: from its `label_filename`, else from `decode.labels`."""
        return self._output_labels.get(output, self._labels)

    @property
    def ignored(self) -> Tuple[str, ...]:
        """Keys that are in the file and that this version does not use, each as `key (why)`."""
        return self._ignored

    @property
    def refused(self) -> str:
        """Why the model cannot be served as it is, with the way out; empty where it can."""
        return self._refused

    @property
    def instances(self) -> int:
        """Copies of the model in all groups together."""
        return sum(group.copies for group in self.instance_group) or 1

    @property
    def cached(self) -> bool:
        """Whether answers are kept for equal requests."""
        return self.response_cache is not None and self.response_cache.enable

    @property
    def parameter_values(self) -> Dict[str, str]:
        """`parameters` as plain text by key."""
        return {key: parameter.string_value for key, parameter in self.parameters.items()}

    @property
    def build_values(self) -> Optional[BuildConfig]:
        """`[build]`, else what `optimization` says about TensorRT in Triton's words."""
        parameters = self.optimization.tensorrt() if self.optimization is not None else None
        if self.build is not None or parameters is None:
            return self.build
        cores = [device.device_id for group in self.instance_group for device in group.secondary_devices]
        return build_of(parameters, cores[0] if cores else -1)

    def host_name(self, platform: str = "") -> str:
        """The engine host; `platform` is what the model file turned out to be where the config is silent."""
        return str(self.host) if self.host else platforms.HOSTS.get(platform or self.platform, "cpu")

    def read_beside(
        self,
        labels: Tuple[str, ...],
        ignored: Tuple[str, ...],
        refused: str = "",
        output_labels: Optional[Mapping[str, Tuple[str, ...]]] = None,
    ) -> ModelConfig:
        """The same with what was found around the file."""
        found = self.model_copy()
        found._labels = labels
        found._ignored = ignored
        found._refused = refused
        found._output_labels = dict(output_labels or {})
        return found

    def decode_json(self) -> Optional[Dict[str, Any]]:
        """`[decode]` for an engine host's load message: kind, labels, min_score, iou, max_objects; None without a decoder."""
        if self.decode is None or self.decode.kind == "none":
            return None
        return {**self.decode.model_dump(), "labels": list(self.labels)}

    def triton_json(
        self, name: str, platform: str, max_batch_size: int, inputs: Sequence[TensorSpec], outputs: Sequence[TensorSpec]
    ) -> Dict[str, Any]:
        """The complete configuration as protobuf's JSON prints it; the tensors have their batch dimension."""
        said = self.model_dump(mode="json", by_alias=True, exclude={*OWN_KEYS})
        batched = max_batch_size > 0
        return model_json.completed(
            said,
            name,
            platform,
            max_batch_size,
            [_described(InputConfig, self.input, spec, batched) for spec in inputs],
            [_described(OutputConfig, self.output, spec, batched) for spec in outputs],
        )


def _described(kind: Any, said: Sequence[TensorConfig], spec: TensorSpec, batched: bool) -> Dict[str, Any]:
    """A tensor with all its keys, the resolved datatype and sizes in the place of those that were said."""
    dims = list(spec.shape[1:] if batched else spec.shape)
    base = next((tensor.model_dump(mode="json") for tensor in said if tensor.name == spec.name), None)
    if base is None:
        base = kind(name=spec.name, data_type=spec.datatype.config_name, dims=()).model_dump(mode="json")
    return {**base, "data_type": spec.datatype.config_name, "dims": dims}
