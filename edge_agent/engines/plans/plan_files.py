"""The files of a shelf of plans: how they are named, made durable, read and trusted."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import tempfile
from pathlib import Path
from typing import List, NamedTuple, Optional, Tuple

from edge_agent.config.durable import give_to_owner_of, write_durably
from edge_agent.engines.plans.digest import file_digest
from edge_agent.engines.plans.regular_file import open_regular
from edge_agent.engines.plans.sidecar import Sidecar

TEMPORARY = ".tmp"  #: ending of files on their way
_MAX_SIDECAR = 1 << 20
_NAME = re.compile(r"(?P<key>[0-9a-f]{32})\.(?P<kind>plan|json)\Z")
_TIMING = re.compile(r"timing-[0-9a-f]{16}\.cache\Z")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_OTHERS_WRITE = stat.S_IWOTH
_ANY_WRITE = stat.S_IWOTH | stat.S_IWGRP


class Unfit(Exception):
    """The file is certainly none that may be used; the text says why, after "it"."""


class ShelfFile(NamedTuple):
    """A file of the shelf. `key` is empty for a timing cache."""

    path: Path
    key: str
    size: int
    mtime_ns: int


def plan_path(folder: Path, digest: str) -> Path:
    """The plan of a key."""
    return folder / (digest + ".plan")


def sidecar_path(folder: Path, digest: str) -> Path:
    """The sidecar of a key."""
    return folder / (digest + ".json")


def is_full(exc: OSError) -> bool:
    """Whether it says that there is no room."""
    return exc.errno in _FULL


def make_folder(folder: Path) -> None:
    """The folder, which nobody else may write to or read. Raises OSError."""
    made = not folder.exists()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = os.stat(str(folder))
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, "it is not a folder")
    descriptor = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if made:
            give_to_owner_of(folder.parent, descriptor)
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(descriptor, 0o700)
    finally:
        os.close(descriptor)


def try_to_write(folder: Path) -> None:
    """Raises OSError where no file can be made in the folder."""
    tempfile.TemporaryFile(dir=str(folder)).close()


def listing(folder: Path) -> List[ShelfFile]:
    """What belongs to the shelf: plans, sidecars, timing caches. Raises OSError."""
    found = []
    with os.scandir(str(folder)) as entries:
        for entry in entries:
            name = _NAME.match(entry.name)
            if (name is None and not _TIMING.match(entry.name)) or entry.is_dir(follow_symlinks=False):
                continue
            with contextlib.suppress(FileNotFoundError):
                seen = entry.stat(follow_symlinks=False)
                found.append(ShelfFile(Path(entry.path), name.group("key") if name else "", seen.st_size, seen.st_mtime_ns))
    return found


def leftovers(folder: Path) -> List[Path]:
    """Files on their way whose writer is gone: at the start nobody writes. Raises OSError."""
    with os.scandir(str(folder)) as entries:
        return [Path(entry.path) for entry in entries if entry.name.startswith(".") and not entry.is_dir(follow_symlinks=False)]


def last_serial(folder: Path) -> int:
    """The highest serial number of the sidecars that can be read."""
    highest = 0
    with contextlib.suppress(OSError):
        for file in listing(folder):
            if file.path.suffix == ".json":
                with contextlib.suppress(OSError, Unfit):
                    sidecar = read_sidecar(file.path, own=True)
                    highest = max(highest, sidecar.serial if sidecar is not None else 0)
    return highest


def seal(temporary: Path) -> Tuple[int, str]:
    """Makes a written plan durable and the agent's alone; its size and SHA-256. Raises OSError."""
    descriptor = os.open(str(temporary), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(descriptor, 0o600)
        give_to_owner_of(temporary.parent, descriptor)
        os.fsync(descriptor)
        size = os.fstat(descriptor).st_size
    finally:
        os.close(descriptor)
    if not size:
        raise OSError(errno.EINVAL, "the builder wrote an empty file")
    return size, file_digest(temporary)


def put(temporary: Path, path: Path, sidecar: bytes) -> None:
    """The plan and its sidecar, both or (after an error) neither; whatever needs room is done before a name changes."""
    beside = temporary.with_name(temporary.name + ".json" + TEMPORARY)
    try:
        write_durably(beside, sidecar)
        os.replace(str(temporary), str(path))
        _rename_sidecar(beside, path)
    except OSError:
        discard(beside)
        raise
    try:
        _sync(path.parent)
    except OSError:
        discard(path)  # nobody knows what a power cut would leave of it
        discard(path.with_suffix(".json"))
        raise


def _rename_sidecar(beside: Path, path: Path) -> None:
    try:
        os.replace(str(beside), str(path.with_suffix(".json")))
    except OSError:
        discard(path)  # a plan without its sidecar is none
        raise


def check(path: Path, own: bool) -> None:
    """Whether the file may be trusted as a file. Raises Unfit, OSError."""
    seen = os.lstat(str(path))
    if not stat.S_ISREG(seen.st_mode):
        raise Unfit("is a symbolic link" if stat.S_ISLNK(seen.st_mode) else "is not a file")
    if stat.S_IMODE(seen.st_mode) & (_ANY_WRITE if own else _OTHERS_WRITE):
        raise Unfit("may be written by others")
    if own and seen.st_uid not in _owners(path.parent):
        raise Unfit("belongs to user %d" % seen.st_uid)
    if not seen.st_size:
        raise Unfit("is empty")


def _owners(folder: Path) -> Tuple[int, ...]:
    """Root and the agent; for root, which may look on, also who the folder belongs to."""
    own = os.geteuid()
    return (0, own) if own else (0, os.stat(str(folder)).st_uid)


def read_sidecar(path: Path, own: bool) -> Optional[Sidecar]:
    """None where there is no file. Raises Unfit, OSError."""
    try:
        check(path, own)
        with open_regular(path, os.O_NOFOLLOW) as file:
            data = file.read(_MAX_SIDECAR + 1)
    except FileNotFoundError:
        return None
    if len(data) > _MAX_SIDECAR:
        raise Unfit("has a sidecar of over %d bytes" % _MAX_SIDECAR)
    try:
        return Sidecar.decode(data)
    except ValueError as exc:
        raise Unfit("has a sidecar that cannot be used: %s" % exc) from exc


def write_sidecar(path: Path, sidecar: Sidecar) -> None:
    """Replaces the sidecar durably. Raises OSError."""
    write_durably(path, sidecar.encode())


def discard(path: Path) -> None:
    """Removes a file if that is possible."""
    with contextlib.suppress(OSError):
        path.unlink()


def _sync(folder: Path) -> None:
    descriptor = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
