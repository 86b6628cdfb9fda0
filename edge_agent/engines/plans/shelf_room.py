"""Which files of a shelf go when it is over its bound."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Collection, Dict, List, NamedTuple, Tuple

from edge_agent.engines.plans.plan_files import ShelfFile, Unfit, listing, read_sidecar

#: of the bound; they are small, and there is one for each library and setting
_TIMING_SHARE = 0.125
_MAX_TIMING_CACHES = 8
#: of plans that are not used any more
_MAX_RECORDS = 256


class Removed(NamedTuple):
    """What was removed: a key's digest (empty for a timing cache) and how much room that gave."""

    key: str
    size: int


def make_room(folder: Path, max_bytes: int, pinned: Collection[str]) -> Tuple[List[Removed], int]:
    """Removes what must go; what went, and how many bytes are left. Raises OSError."""
    files = listing(folder)
    chosen = choose(files, _serials(files), max_bytes, pinned)
    for file in chosen:
        with contextlib.suppress(FileNotFoundError):
            file.path.unlink()
    sizes: Dict[str, int] = {}
    for file in chosen:
        sizes[file.key] = sizes.get(file.key, 0) + file.size
    left = sum(file.size for file in files) - sum(sizes.values())
    return [Removed(key, size) for key, size in sizes.items()], left


def choose(files: Collection[ShelfFile], serials: Dict[str, int], max_bytes: int, pinned: Collection[str]) -> List[ShelfFile]:
    """Old timing caches over their share, then plans and their records, oldest first, then timing caches."""
    timing = sorted((file for file in files if not file.key), key=lambda file: file.mtime_ns, reverse=True)
    by_key: Dict[str, List[ShelfFile]] = {}
    for file in files:
        if file.key and file.key not in pinned:
            by_key.setdefault(file.key, []).append(file)
    keys = sorted(by_key, key=lambda key: serials.get(key, 0))
    gone, kept = _split_timing(timing, int(max_bytes * _TIMING_SHARE))
    records = [key for key in keys if all(file.path.suffix == ".json" for file in by_key[key])]
    for key in records[: max(len(records) - _MAX_RECORDS, 0)]:
        gone += by_key.pop(key)
    waiting = [by_key[key] for key in keys if key in by_key] + [[file] for file in reversed(kept)]
    total = sum(file.size for file in files) - sum(file.size for file in gone)
    for group in waiting:
        if total <= max_bytes:
            break
        gone += group
        total -= sum(file.size for file in group)
    return gone


def _split_timing(newest_first: List[ShelfFile], max_bytes: int) -> Tuple[List[ShelfFile], List[ShelfFile]]:
    """(too many or too large, those that stay)."""
    gone: List[ShelfFile] = []
    kept: List[ShelfFile] = []
    total = 0
    for file in newest_first:
        total += file.size
        (kept if len(kept) < _MAX_TIMING_CACHES and total <= max_bytes else gone).append(file)
    return gone, kept


def _serials(files: Collection[ShelfFile]) -> Dict[str, int]:
    serials: Dict[str, int] = {}
    for file in files:
        if file.path.suffix == ".json":
            with contextlib.suppress(OSError, Unfit):
                sidecar = read_sidecar(file.path, own=True)
                serials[file.key] = sidecar.serial if sidecar is not None else 0
    return serials
