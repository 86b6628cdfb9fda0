"""A model's `config.toml`: Triton's ModelConfig in TOML, with the agent's own tables."""

from __future__ import annotations

from typing import Any, Dict, Literal, Mapping, Optional, Tuple

from pydantic import Field, PrivateAttr, field_validator, model_validator

from edge_agent.config.batching import DynamicBatching
from edge_agent.config.image import DecodeConfig, ImageConfig
from edge_agent.config.section import Name, Section
from edge_agent.config.versions import VersionPolicy
from edge_agent.domain.tensors import DataType, TensorSpec

_DATATYPES: Mapping[str, DataType] = {datatype.config_name: datatype for datatype in DataType}
_BACKENDS: Mapping[str, str] = {"onnxruntime": "onnxruntime_onnx", "tensorrt": "tensorrt_plan", "python": "python"}
_HOSTS: Mapping[str, str] = {"tensorrt_plan": "gpu", "onnxruntime_onnx": "cpu", "python": "python"}


class TensorConfig(Section):
    """One input or output, without the batch dimension where the model batches."""

    name: str = Field(min_length=1, description="name of the tensor in the model file")
    data_type: str = Field(description="TYPE_FP32 and so on; text is TYPE_STRING")
    dims: Tuple[int, ...] = Field(description="sizes; -1 is any size")

    @field_validator("data_type")
    @classmethod
    def _known_type(cls, data_type: str) -> str:
        if data_type not in _DATATYPES:
            raise ValueError("should be one of " + ", ".join(_DATATYPES))
        return data_type

    @field_validator("dims")
    @classmethod
    def _sizes(cls, dims: Tuple[int, ...]) -> Tuple[int, ...]:
        if any(size < 1 and size != -1 for size in dims):
            raise ValueError("each size should be at least 1, or -1 for any")
        return dims

    @property
    def datatype(self) -> DataType:
        """The datatype as the wire names it."""
        return _DATATYPES[self.data_type]

    def spec(self, batched: bool) -> TensorSpec:
        """The tensor as requests see it: with a leading -1 when the model batches."""
        return TensorSpec(self.name, self.datatype, ((-1,) if batched else ()) + self.dims)


class InstanceGroup(Section):
    """Copies of the model that run side by side."""

    count: int = Field(1, ge=1, le=64, description="how many")


class ModelConfig(Section):
    """What is said about a model; what is not said comes from the model file."""

    name: str = Field("", description="the folder's name, where it is given at all")
    platform: Literal["", "tensorrt_plan", "onnxruntime_onnx", "python", "ensemble"] = Field(
        "", description="kind of model file; empty: by the file that is there"
    )
    backend: str = Field("", description="Triton's other name for the platform: onnxruntime, tensorrt, python")
    default_model_filename: str = Field("", description="name of the model file; empty: model.onnx, model.plan, model.py")
    max_batch_size: Optional[int] = Field(
        None, ge=0, le=4096, description="largest batch; 0: the model does not batch; silent: by the file"
    )
    host: Optional[Name] = Field(None, description="engine host; silent: gpu for TensorRT, cpu for ONNX Runtime, python")
    input: Tuple[TensorConfig, ...] = Field((), description="inputs; empty: as the model file says")
    output: Tuple[TensorConfig, ...] = Field((), description="outputs; empty: as the model file says")
    instance_group: Tuple[InstanceGroup, ...] = Field((), description="copies that run side by side; empty: one")
    dynamic_batching: Optional[DynamicBatching] = Field(
        None, description="how requests are joined; silent: at once, as they come"
    )
    version_policy: VersionPolicy = Field(
        default_factory=VersionPolicy, description="which versions are served; silent: the newest"
    )
    image: Optional[ImageConfig] = Field(
        None, description="how a picture becomes the input; silent: the model takes no pictures"
    )
    decode: Optional[DecodeConfig] = Field(None, description="what the outputs mean; silent: they are plain tensors")

    _labels: Tuple[str, ...] = PrivateAttr(default=())
    _ignored: Tuple[str, ...] = PrivateAttr(default=())

    @model_validator(mode="before")
    @classmethod
    def _platform_of_backend(cls, data: Any) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("backend"), str) or data.get("platform"):
            return data
        return {**data, "platform": _BACKENDS.get(data["backend"], data["backend"])}

    @field_validator("default_model_filename")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError("should be the name of a file in the version's folder")
        return name

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

    @property
    def labels(self) -> Tuple[str, ...]:
        """Names of the classes by index, from the file that `decode.labels` names."""
        return self._labels

    @property
    def ignored(self) -> Tuple[str, ...]:
        """Keys of Triton's that are in the file and that this version does not use."""
        return self._ignored

    @property
    def instances(self) -> int:
        """Copies of the model in all groups together."""
        return sum(group.count for group in self.instance_group) or 1

    def host_name(self, platform: str = "") -> str:
        """The engine host; `platform` is what the model file turned out to be where the config is silent."""
        return str(self.host) if self.host else _HOSTS.get(platform or self.platform, "cpu")

    def read_beside(self, labels: Tuple[str, ...], ignored: Tuple[str, ...]) -> ModelConfig:
        """The same with what was found around the file."""
        found = self.model_copy()
        found._labels = labels
        found._ignored = ignored
        return found

    def decode_json(self) -> Optional[Dict[str, Any]]:
        """`[decode]` for an engine host's load message: kind, labels, min_score, iou, max_objects; None without a decoder."""
        if self.decode is None or self.decode.kind == "none":
            return None
        return {**self.decode.model_dump(), "labels": list(self.labels)}
