"""What a camera is to do, and how its address may be shown."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_CREDENTIALS = re.compile(r"(\w+://)[^/@\s]*@")
_SECRET_PARAMETER = re.compile(r"(?i)([?&](?:[a-z_]*(?:pass(?:word|wd)?|pwd|token|secret|key|auth)[a-z_]*)=)[^&\s]*")


@dataclass(frozen=True)
class CameraOptions:
    """One configured camera."""

    name: str
    source: str = field(repr=False)  #: file path, rtsp(s)://, http(s):// (MJPEG), /dev/videoN
    username: str = ""
    password: str = field(default="", repr=False)
    transport: str = "tcp"  #: tcp | udp | auto (RTSP)
    loop: bool = True  #: files start again at their end
    stale_after_s: float = 5.0  #: without a frame for this long the child is killed and the camera opened again
    frozen_after_s: float = 60.0  #: the same with the same picture; 0: never
    python: str = ""  #: interpreter of the child
    reserve_bytes: int = 0  #: of tensor memory that nobody else may take


def redact(source: str) -> str:
    """The source as logs and pages may show it: without user, password or secret parameters."""
    return _SECRET_PARAMETER.sub(r"\1***", _CREDENTIALS.sub(r"\1***@", source))
