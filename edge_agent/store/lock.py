"""One agent a file."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from edge_agent.errors import StoreError


def lock(path: Path) -> int:
    """Keep other agents off this file; the lock ends with the process, however it ends.

    Raises:
        StoreError: another process holds it, or the folder cannot be used.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(str(path) + ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o640)
    except OSError as exc:
        raise StoreError("the folder of the database cannot be used: %s" % exc) from exc
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as exc:
        os.close(descriptor)
        raise StoreError("another agent uses the database %s: stop it first, or set another [store] path" % path) from exc
    return descriptor
