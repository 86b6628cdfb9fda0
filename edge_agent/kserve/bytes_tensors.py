"""BYTES tensors: each element is a little-endian uint32 length and then the bytes."""

from __future__ import annotations

import struct
from typing import Iterable, List, Union

from edge_agent.errors import InvalidRequest

_LENGTH = struct.Struct("<I")

#: bytes in front of each element
PREFIX = _LENGTH.size


def prefix(nbytes: int) -> bytes:
    """The length in front of an element of `nbytes`."""
    return _LENGTH.pack(nbytes)


def pack(elements: Iterable[bytes]) -> bytes:
    """The tensor's bytes."""
    return b"".join(_LENGTH.pack(len(element)) + element for element in elements)


def check(view: Union[bytes, memoryview], count: int, name: str) -> None:
    """InvalidRequest unless the bytes are exactly `count` elements."""
    at, found, end = 0, 0, len(view)
    while at < end and found < count:
        if at + PREFIX > end:
            raise InvalidRequest("incomplete string length indicator for inference input '%s', expecting %d bytes but only %d "
                                 "bytes available" % (name, PREFIX, end - at))  # fmt: skip
        (length,) = _LENGTH.unpack_from(view, at)
        at += PREFIX
        if length > end - at:
            raise InvalidRequest("incomplete string data for inference input '%s', expecting string of length %d but only %d "
                                 "bytes available" % (name, length, end - at))  # fmt: skip
        at += length
        found += 1
    if found != count or at != end:
        raise InvalidRequest("expected %d string elements for inference input '%s', got %s" % (
            count, name, found if found != count else "%d bytes more" % (end - at)))  # fmt: skip


def unpack(view: Union[bytes, memoryview]) -> List[bytes]:
    """The elements of a well-formed tensor (outputs of a host; foreign input goes through check first)."""
    elements: List[bytes] = []
    at, end = 0, len(view)
    while at + PREFIX <= end:
        (length,) = _LENGTH.unpack_from(view, at)
        at += PREFIX
        elements.append(bytes(view[at : at + length]))
        at += length
    return elements
