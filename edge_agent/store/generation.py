"""Ids that are never given twice: the store's generation, and the mark beside the file that tells a copy from the original."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional


@dataclass(frozen=True)
class Mark:
    """What `store.mark` remembers outside of the database: its generation and the highest `seq` of each kind."""

    generation: str
    highest: Mapping[str, int]


#: kinds whose rows have a uid
KINDS = ("result", "event")


def uid(agent_id: str, generation: str, kind: str, seq: int) -> str:
    """The id of a row, unique for ever."""
    return "%s/%s/%s/%d" % (agent_id, generation, kind, seq)


def choose(meta: Mapping[str, str], sequences: Mapping[str, int], mark: Optional[Mark], board_serial: str) -> str:
    """The generation to go on with: the file's own, or a new one when the file may be a copy. Pure but for the dice."""
    own = meta.get("generation", "")
    serial = meta.get("board_serial", "")
    cloned = bool(serial and board_serial and serial != board_serial)
    rolled_back = mark is None or mark.generation != own or any(sequences.get(k, 0) < mark.highest.get(k, 0) for k in KINDS)
    return secrets.token_hex(4) if not own or cloned or rolled_back else own


def read_mark(path: Path) -> Optional[Mark]:
    """The mark, or None when there is none that can be read."""
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        return Mark(str(content["generation"]), {kind: int(content[kind]) for kind in KINDS})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_mark(path: Path, mark: Mark) -> None:
    """Replace the mark, whole or not at all; raises OSError."""
    content: Dict[str, Any] = {"generation": mark.generation}
    content.update({kind: mark.highest.get(kind, 0) for kind in KINDS})
    temporary = path.with_name(path.name + ".new")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    _sync_directory(path.parent)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(str(path), os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
