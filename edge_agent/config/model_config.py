"""A model's `config.toml`: Triton's ModelConfig in TOML, with the agent's own tables."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any, Dict, List, Literal, Mapping, Optional, Tuple

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator

from edge_agent.config import later, toml
from edge_agent.config.batching import DynamicBatching
from edge_agent.config.faults import Wrong, shown, wrongs
from edge_agent.config.image import DecodeConfig, ImageConfig
from edge_agent.config.model_keys import IGNORED, REFUSED
from edge_agent.config.section import MODEL_NAME_PATTERN, Name, Section
from edge_agent.config.tensors import TensorConfig
from edge_agent.config.versions import VersionPolicy
from edge_agent.errors import ConfigError

_BACKENDS: Mapping[str, str] = {"onnxruntime": "onnxruntime_onnx", "tensorrt": "tensorrt_plan", "python": "python"}
FILE_NAME = "config.toml"
_MAX_LABEL_BYTES = 4_194_304
_HOSTS: Mapping[str, str] = {"tensorrt_plan": "gpu", "onnxruntime_onnx": "cpu", "python": "python"}


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

    @field_validator("backend")
    @classmethod
    def _known_backend(cls, backend: str) -> str:
        if backend and backend not in _BACKENDS:
            raise ValueError("should be one of " + ", ".join(_BACKENDS))
        return backend

    @field_validator("default_model_filename")
    @classmethod
    def _plain_name(cls, name: str) -> str:
        if "/" in name or "\0" in name or name in (".", ".."):
            raise ValueError("should be the name of a file in the version's folder")
        return name

    @model_validator(mode="after")
    def _platform_of_backend(self) -> Any:
        platform = _BACKENDS.get(self.backend, self.platform)
        if self.platform and self.platform != platform:
            raise ValueError("platform %s and backend %s are not the same: say one" % (self.platform, self.backend))
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


def load_model_config(directory: Path) -> ModelConfig:
    """What the folder says about its model, defaults where it says nothing; raises ConfigError with all faults."""
    file = directory / FILE_NAME
    if not MODEL_NAME_PATTERN.match(directory.name):
        cure = "rename the folder: 1 to 128 of A-Z a-z 0-9 . _ - , first a letter or a digit"
        raise ConfigError([(str(directory), "the folder's name cannot be a model's", cure)])
    if file.exists():
        return _parsed(toml.read(file), file)
    if (directory / "config.pbtxt").exists():
        cure = "write the same keys as TOML into %s" % FILE_NAME
        raise ConfigError([(str(directory / "config.pbtxt"), "config.pbtxt is not read by this version", cure)])
    return ModelConfig()


def _parsed(tables: Dict[str, Any], file: Path) -> ModelConfig:
    whole = copy.deepcopy(tables)
    found = [Wrong(location, "later", what, cure) for location, what, cure in later.take_out(tables, REFUSED).faults]
    ignored = tuple(shown(location, whole) for location, _, _ in later.take_out(tables, IGNORED).faults)
    config = ModelConfig()
    try:
        config = ModelConfig.model_validate_json(json.dumps(tables, default=str), strict=True)
    except ValidationError as error:
        found.extend(wrongs(error, ModelConfig, tables))
    if config.name and config.name != file.parent.name:
        found.append(Wrong(("name",), "", "should be the folder's name, %s" % file.parent.name, "correct it or remove it"))
    labels, label_faults = _labels(config, file.parent)
    faults = [("%s: %s" % (file, shown(wrong.location, whole) or "the whole"), wrong.what, wrong.cure) for wrong in found]
    if faults or label_faults:
        raise ConfigError(faults + label_faults)
    return config.read_beside(labels, ignored)


def _labels(config: ModelConfig, directory: Path) -> Tuple[Tuple[str, ...], List[Tuple[str, str, str]]]:
    """The labels one a line; a line that is empty is a class without a name of its own."""
    if config.decode is None or not config.decode.labels:
        return (), []
    file = directory / config.decode.labels
    try:
        with file.open("rb") as opened:
            data = opened.read(_MAX_LABEL_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as exc:
        return (), [(str(file), "the labels cannot be read: %s" % exc.strerror, "put the file there, or correct decode.labels")]
    except UnicodeDecodeError:
        return (), [(str(file), "the labels are not UTF-8 text", "save them as UTF-8, one a line")]
    if len(data) > _MAX_LABEL_BYTES:
        return (), [(str(file), "the labels are over %d bytes" % _MAX_LABEL_BYTES, "check that the right file is named")]
    lines = [line.strip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines), []
