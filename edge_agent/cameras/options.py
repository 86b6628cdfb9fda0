"""What a camera is to do."""

from __future__ import annotations

from dataclasses import dataclass, field


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
