"""Reads what is said about a model: `config.toml`, else Triton's `config.pbtxt`, or its JSON form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Sequence, Tuple

from pydantic import ValidationError

from edge_agent.config import model_keys, pbtxt, platforms, protobuf, toml
from edge_agent.config.faults import Fault, Wrong, shown, wrongs
from edge_agent.config.labels import read_labels
from edge_agent.config.model_schema import ModelConfig
from edge_agent.config.section import MODEL_NAME_PATTERN
from edge_agent.errors import ConfigError

__all__ = ["FILE_NAME", "TRITON_FILE_NAME", "ModelConfig", "load_model_config", "model_config_from_json"]

FILE_NAME = "config.toml"
TRITON_FILE_NAME = "config.pbtxt"
_MAX_JSON_BYTES = 1_048_576
_BESIDE = "%s (%s beside it is read instead)" % (TRITON_FILE_NAME, FILE_NAME)


class _Source(NamedTuple):
    """What was read, before the schema has seen it."""

    where: str
    tables: Dict[str, Any]
    wrongs: Sequence[Wrong]
    notes: Tuple[str, ...]


def load_model_config(directory: Path) -> ModelConfig:
    """What the folder says about its model, defaults where it says nothing; raises ConfigError with all faults.

    With both files there `config.toml` is read, and `ignored` says so.
    """
    own, tritons = directory / FILE_NAME, directory / TRITON_FILE_NAME
    if not MODEL_NAME_PATTERN.match(directory.name):
        cure = "rename the folder: 1 to 128 of A-Z a-z 0-9 . _ - , first a letter or a digit"
        raise ConfigError([(str(directory), "the folder's name cannot be a model's", cure)])
    if own.exists():
        return _checked(_Source(str(own), toml.read(own), (), (_BESIDE,) if tritons.exists() else ()), directory)
    if tritons.exists():
        found = protobuf.from_text(pbtxt.read(tritons), ModelConfig)
        return _checked(_Source(str(tritons), found.tables, found.wrongs, ()), directory)
    return ModelConfig()


def model_config_from_json(text: str, directory: Path) -> ModelConfig:
    """What a load request says instead of the folder's file: protobuf's JSON; label files are those of the folder."""
    where = "config of the load request"
    if len(text) > _MAX_JSON_BYTES:
        raise ConfigError([(where, "is over 1 MB", "send ModelConfig only")])
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise ConfigError([(where, "is not JSON: %s" % exc, "send ModelConfig in its JSON form")]) from exc
    if not isinstance(document, dict):
        raise ConfigError([(where, "should be an object", "send ModelConfig in its JSON form")])
    found = protobuf.from_json(document, ModelConfig)
    return _checked(_Source(where, found.tables, found.wrongs, ()), directory)


def _checked(source: _Source, directory: Path) -> ModelConfig:
    found = list(source.wrongs)
    config = ModelConfig()
    try:
        config = ModelConfig.model_validate_json(json.dumps(source.tables, default=str), strict=True)
    except ValidationError as error:
        seen = {wrong.location for wrong in found}
        found.extend(wrong for wrong in wrongs(error, ModelConfig, source.tables) if wrong.location not in seen)
    except (ValueError, RecursionError) as error:  # what no JSON reader takes: a lone surrogate, nesting without end
        found.append(Wrong((), "", "cannot be read: %s" % error, "correct the value"))
    if config.name and config.name != directory.name:
        found.append(Wrong(("name",), "", "should be the folder's name, %s" % directory.name, "correct it or remove it"))
    labels, output_labels, label_faults = _labels(config, directory)
    faults: List[Fault] = [
        ("%s: %s" % (source.where, shown(wrong.location, source.tables) or "the whole"), wrong.what, wrong.cure)
        for wrong in found
    ]
    if faults or label_faults:
        raise ConfigError(faults + label_faults)
    refusals = (platforms.refusal(config.platform, config.backend), *model_keys.refused(source.tables))
    return config.read_beside(
        labels, source.notes + model_keys.ignored(source.tables), "; ".join(filter(None, refusals)), output_labels
    )


def _labels(config: ModelConfig, directory: Path) -> Tuple[Tuple[str, ...], Dict[str, Tuple[str, ...]], List[Fault]]:
    """The classes' names: the decoder's, and each output's."""
    faults: List[Fault] = []
    read: Callable[[str, str], Tuple[str, ...]] = lambda name, key: read_labels(directory / name, key, faults)  # noqa: E731
    decoders = read(config.decode.labels, "decode.labels") if config.decode is not None and config.decode.labels else ()
    outputs = {
        output.name: read(output.label_filename, "output.%s.label_filename" % output.name)
        for output in config.output
        if output.label_filename
    }
    return decoders, outputs, faults
