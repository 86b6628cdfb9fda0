"""BYTES tensors: each element is a little-endian uint32 length and then the bytes."""

from __future__ import annotations

from typing import Iterator, Union

from edge_agent.engine_host.json_tensors import LENGTH, pack_strings, unpack_strings
from edge_agent.errors import InvalidRequest

#: bytes in front of each element
PREFIX = LENGTH.size

#: the tensor's bytes from its elements, and its elements from well-formed bytes (foreign input goes through check first)
pack, unpack = pack_strings, unpack_strings

_STEP = 2048  # elements; well under a millisecond


def prefix(nbytes: int) -> bytes:
    """The length in front of an element of `nbytes`."""
    return LENGTH.pack(nbytes)


def check(view: Union[bytes, memoryview], count: int, name: str) -> None:
    """InvalidRequest unless the bytes are exactly `count` elements."""
    for _ in check_steps(view, count, name):
        pass


def check_steps(view: Union[bytes, memoryview], count: int, name: str) -> Iterator[None]:
    """The same in steps, between which the loop may do something else."""
    at, found, end = 0, 0, len(view)
    while at < end and found < count:
        if at + PREFIX > end:
            raise InvalidRequest("incomplete string length indicator for inference input '%s', expecting %d bytes but only %d "
                                 "bytes available" % (name, PREFIX, end - at))  # fmt: skip
        (length,) = LENGTH.unpack_from(view, at)
        at += PREFIX
        if length > end - at:
            raise InvalidRequest("incomplete string data for inference input '%s', expecting string of length %d but only %d "
                                 "bytes available" % (name, length, end - at))  # fmt: skip
        at += length
        found += 1
        if found % _STEP == 0:
            yield
    if found != count or at != end:
        raise InvalidRequest("expected %d string elements for inference input '%s', got %s" % (
            count, name, found if found != count else "%d bytes more" % (end - at)))  # fmt: skip
