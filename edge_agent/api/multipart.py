"""multipart/form-data: the one file that a form sends."""

from __future__ import annotations

import re
from typing import Optional, Tuple

from edge_agent.errors import InvalidRequest

_BOUNDARY = re.compile(r"boundary=(?:\"([^\"]{1,70})\"|([^\s;]{1,70}))", re.IGNORECASE)
_MAX_HEAD = 8192
_MAX_PARTS = 32


def boundary_of(content_type: str) -> bytes:
    """The boundary in a Content-Type header."""
    found = _BOUNDARY.search(content_type)
    if not found:
        raise InvalidRequest("multipart/form-data without a boundary")
    return (found.group(1) or found.group(2)).encode("latin-1", "replace")


def first_file(body: memoryview, boundary: bytes) -> memoryview:
    """The content of the first part that is a file (has a filename), else of the first part."""
    data = bytes(body)
    mark = b"--" + boundary
    at = 0 if data.startswith(mark) else data.find(b"\r\n" + mark) + 2
    if at < 2 and not data.startswith(mark):
        raise InvalidRequest("multipart/form-data: its boundary is not in the body")
    first: Optional[memoryview] = None
    for _ in range(_MAX_PARTS):
        head_at = at + len(mark)
        if data.startswith(b"--", head_at):
            break
        head, start, end = _part(data, head_at, b"\r\n" + mark)
        if b"filename" in head.lower():
            return body[start:end]
        first = body[start:end] if first is None else first
        at = end + 2
    if first is None:
        raise InvalidRequest("multipart/form-data holds no part")
    return first


def _part(data: bytes, head_at: int, end_mark: bytes) -> Tuple[bytes, int, int]:
    """The head of a part, and where its content starts and ends."""
    head_end = data.find(b"\r\n\r\n", head_at, head_at + _MAX_HEAD)
    if head_end < 0:
        raise InvalidRequest("multipart/form-data: a part has no head")
    end = data.find(end_mark, head_end + 2)
    if end < 0:
        raise InvalidRequest("multipart/form-data: the body ends within a part")
    return data[head_at:head_end], min(head_end + 4, end), end
