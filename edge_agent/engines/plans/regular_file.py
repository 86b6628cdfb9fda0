"""Opening a file that somebody else has put there: a pipe or a device must not make the reader wait."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path, flags: int = 0) -> BinaryIO:
    """The file for unbuffered reading. Raises OSError, also when it is no regular file."""
    descriptor = os.open(str(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file")
    return os.fdopen(descriptor, "rb", buffering=0)
