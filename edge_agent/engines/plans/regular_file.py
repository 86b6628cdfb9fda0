"""Opening a file that somebody else has put there: a pipe or a device must not make the reader wait."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from edge_agent.errors import EngineLoadError


def open_regular(path: Path, flags: int = 0) -> BinaryIO:
    """The file for unbuffered reading. Raises OSError, also when it is no regular file."""
    descriptor = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file")
    return os.fdopen(descriptor, "rb", buffering=0)


def cannot_read(path: Path, error: OSError, whose: str = "") -> EngineLoadError:
    """Says so; that a file cannot be read may pass, that it is not there will not."""
    text = "%s%s cannot be read: %s" % (whose, path, error.strerror)
    return EngineLoadError(text) if isinstance(error, FileNotFoundError) else EngineLoadError(text, code="model.unreadable")
