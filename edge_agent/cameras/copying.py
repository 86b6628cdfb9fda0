"""Copies of large buffers that leave the loop time for others."""

from __future__ import annotations

import asyncio
from typing import Union

Buffer = Union[bytes, bytearray, memoryview]

_STEP_BYTES = 1 << 20  # a quarter of a millisecond


async def copy(source: Buffer, target: memoryview, at: int = 0) -> int:
    """Puts the bytes into the target from `at` on; answers where they end."""
    view = memoryview(source)
    for start in range(0, len(view), _STEP_BYTES):
        if start:
            await asyncio.sleep(0)
        piece = view[start : start + _STEP_BYTES]
        target[at + start : at + start + len(piece)] = piece
    return at + len(view)
