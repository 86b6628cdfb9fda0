"""What a model is, as one number over all its files."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path
from typing import Tuple

from edge_agent.engines.plans.onnx_files import external_files
from edge_agent.engines.plans.regular_file import cannot_read, open_regular

_PIECE = 1 << 20


def onnx_digest(path: Path) -> str:
    """SHA-256 (hex) of an ONNX model with its external data files: their names, sizes and content.

    Raises:
        EngineLoadError: a file cannot be read or is not what it should be, or one changed meanwhile.
    """
    total = hashlib.sha256()
    for file in (path, *external_files(path)):
        name = "" if file is path else os.path.relpath(str(file), str(path.parent))
        try:
            size, digest = _hashed(file)
        except OSError as exc:
            raise cannot_read(file, exc) from exc
        total.update(("%s\0%d\0%s\n" % (name, size, digest)).encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file that is no symbolic link. Raises OSError."""
    return _hashed(path, os.O_NOFOLLOW)[1]


def _hashed(path: Path, flags: int = 0) -> Tuple[int, str]:
    """Size and SHA-256, read piece by piece. Raises OSError, also when it is no file or changed meanwhile."""
    with open_regular(path, flags) as file:
        before = os.fstat(file.fileno())
        digest, size = hashlib.sha256(), 0
        while True:
            piece = file.read(_PIECE)
            if not piece:
                break
            digest.update(piece)
            size += len(piece)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns) or size != after.st_size:
        raise OSError(errno.EBUSY, "it changed meanwhile")
    return size, digest.hexdigest()
