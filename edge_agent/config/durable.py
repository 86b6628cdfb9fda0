"""Files that are whole after a power cut: the old content or the new, never half of one."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def write_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replace the file's content: temporary file, fsync, rename, fsync of the folder. Raises OSError."""
    descriptor, temporary = tempfile.mkstemp(prefix=".%s." % path.name, dir=str(path.parent))
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
            give_to_owner_of(path.parent, file.fileno())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    _sync_folder(path.parent)


def give_to_owner_of(folder: Path, descriptor: int) -> None:
    """What root writes into the agent's folder belongs to the agent, which could not read it otherwise."""
    if os.geteuid() == 0:
        owner = os.stat(folder)
        os.fchown(descriptor, owner.st_uid, owner.st_gid)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
