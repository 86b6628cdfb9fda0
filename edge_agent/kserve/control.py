"""Bodies of the model repository extension: index, load, unload."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional, Union

from edge_agent.errors import EngineLoadError, InvalidRequest
from edge_agent.kserve import fields
from edge_agent.kserve.fields import shown

_FILE = "file:"


@dataclass(frozen=True)
class LoadBody:
    """What a load brings with it; nothing of it means: as the repository has it."""

    config: Optional[str] = None  #: ModelConfig in its JSON form
    files: Mapping[str, bytes] = field(default_factory=dict)  #: `VERSION/FILE` to content


def parse_index(body: Union[bytes, bytearray, memoryview]) -> bool:
    """Whether only models that are ready are asked for. InvalidRequest."""
    return fields.flag(_object(body).get("ready", False), "'ready'")


def parse_load(body: Union[bytes, bytearray, memoryview], model: str) -> LoadBody:
    """The parameters of a load. InvalidRequest; EngineLoadError for one that there is not, as Triton answers it."""
    config: Optional[str] = None
    files: Dict[str, bytes] = {}
    for key, value in fields.parameters(_object(body), "'parameters'").items():
        where = "'parameters.%s'" % shown(key)
        if key == "config":
            config = fields.text(value, where)
        elif key.startswith(_FILE):
            files[_path(key, where)] = _content(value, where)
        else:
            text = "failed to load '%s', unrecognized load parameter '%s': there are 'config' and 'file:VERSION/FILE'"
            raise EngineLoadError(text % (model, shown(key)))
    if files and config is None:
        raise InvalidRequest("failed to load '%s', 'file:' parameters need 'config' beside them" % model)
    return LoadBody(config, files)


def parse_unload(body: Union[bytes, bytearray, memoryview]) -> bool:
    """Whether the models that an ensemble calls go down with it. InvalidRequest."""
    asked = fields.parameters(_object(body), "'parameters'")
    return fields.flag(asked.get("unload_dependents", False), "'parameters.unload_dependents'")


def _object(body: Union[bytes, bytearray, memoryview]) -> Dict[str, Any]:
    """An empty body is an empty object."""
    return fields.load_object(memoryview(body)) if len(body) else {}


def _path(key: str, where: str) -> str:
    path = fields.text(key, where)[len(_FILE) :]
    parts = path.split("/")
    if not all(parts) or "\0" in path or "." in parts or ".." in parts or len(parts) < 2:
        raise InvalidRequest("%s must name a file within a version, as in file:1/model.onnx" % where)
    return path


def _content(value: Any, where: str) -> bytes:
    try:
        return base64.b64decode(fields.text(value, where).encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error) as exc:
        raise InvalidRequest("%s must be base64: %s" % (where, exc)) from exc
