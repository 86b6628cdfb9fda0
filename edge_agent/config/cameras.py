"""`[[cameras]]`: pictures from a camera, a stream or a file, and the model that looks at them."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Tuple
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator
from typing_extensions import Annotated, Literal

from edge_agent.config.section import ModelName, Name, Score, Seconds, SecretFile, Section

_ADDRESSES = ("rtsp", "rtsps", "http", "https")
_NOT_YET = ("csi://", "gst:", "push")


def _one_of_list(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) == 1:
        return value[0]
    raise ValueError("this version runs one model per camera: give one name")


def _check_address(source: str) -> None:
    try:
        parts = urlsplit(source)
        password, host, _ = parts.password, parts.hostname, parts.port
    except ValueError:
        raise ValueError("is not a usable address: check the host and the port") from None
    if password is not None:
        raise ValueError("has a password in it: put it in a file and name that file in password_file, the user in username")
    if not host:
        raise ValueError("has no host in its address")


class CameraSection(Section):
    """One camera."""

    name: Name = Field(description="name of the camera in results, topics and addresses")
    title: str = Field("", max_length=200, description="what people see, in any language")
    source: str = Field(min_length=1, description="rtsp(s):// or http(s):// address, path of a video file, or /dev/videoN")
    username: str = Field("", description="user of the camera's sign-in")
    password_file: SecretFile = Field(None, description="file with the camera's password")
    model: Annotated[ModelName, BeforeValidator(_one_of_list)] = Field(description="the model that looks at its pictures")
    max_fps: float = Field(10.0, ge=0, le=1000, description="most pictures a second that are inferred; 0: no bound")
    transport: Literal["tcp", "udp", "auto"] = Field("tcp", description="how RTSP carries its packets")
    loop: bool = Field(True, description="a file starts again at its end")
    stale_after_s: float = Field(
        5.0, gt=0, le=3600, description="no new picture for this long is a fault: the camera is opened again"
    )
    frozen_after_s: Seconds = Field(60.0, description="the same picture for this long is a fault; 0: never")
    keep: Literal["all", "none"] = Field("all", description="which results become rows: every inferred picture's, or none")
    min_score: Score = Field(0.4, description="objects below this score are dropped")
    labels: Tuple[str, ...] = Field((), description="only objects with these labels; empty: all")

    @field_validator("title")
    @classmethod
    def _one_line(cls, title: str) -> str:
        if title.isprintable():
            return title
        raise ValueError("should be one line of printable text")

    @field_validator("source")
    @classmethod
    def _source(cls, source: str, info: ValidationInfo) -> str:
        if source.startswith(_NOT_YET[:2]) or source == _NOT_YET[2]:
            raise ValueError("this kind of source is not available in this version: use rtsp, http, a file or /dev/videoN")
        scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):", source)
        if scheme is None:
            folder = info.context.get("folder") if isinstance(info.context, dict) else None
            return os.path.normpath(folder / source) if isinstance(folder, Path) else source
        if scheme.group(1).lower() not in _ADDRESSES or not source[scheme.end() :].startswith("//"):
            raise ValueError("should be an address rtsp(s):// or http(s)://, the path of a file, or /dev/videoN")
        _check_address(source)
        return source
