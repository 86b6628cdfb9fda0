"""What the files of a version hold, in one word: files that are only touched or copied anew stay the same."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Collection, Dict, Mapping, NamedTuple, Optional, Tuple

from edge_agent.serving.repository import Fingerprint, ModelEntry, digest

UNREAD = "?"  #: the word of files that cannot be read, or change as they are read

_Mark = Tuple[str, int, int, int]


class _Version(NamedTuple):
    """As it was when it was read last."""

    marks: Fingerprint
    word: str
    sums: Mapping[_Mark, str]


class Contents:
    """Remembers the versions that it was asked for, and reads of their files only those that look otherwise since.

    Threads of a pool may share it, where each model has one at a time.
    """

    def __init__(self) -> None:
        self._known: Dict[str, Dict[int, _Version]] = {}

    def word(self, entry: ModelEntry, number: int, marks: Fingerprint) -> str:
        """Of the version's own files, and behind a colon of all that it is made of. Blocks while it reads."""
        versions = self._known.setdefault(entry.name, {})
        known = versions.get(number)
        if known is None or known.marks != marks or known.word == UNREAD:
            known = versions[number] = _version(entry.directory, number, marks, versions)
        return known.word

    def sum_of(self, entry: ModelEntry, number: int, path: Path) -> str:
        """SHA-256 of one file of a version whose word was asked for; empty where it was not read."""
        version = self._known.get(entry.name, {}).get(number)
        return "" if version is None else next((sum_of for mark, sum_of in version.sums.items() if mark[0] == str(path)), "")

    def keep_only(self, name: str, numbers: Collection[int]) -> None:
        """Forgets the other versions of a model."""
        kept = {number: version for number, version in self._known.get(name, {}).items() if number in numbers}
        if kept:
            self._known[name] = kept
        else:
            self._known.pop(name, None)


def _version(directory: Path, number: int, marks: Fingerprint, before: Mapping[int, _Version]) -> _Version:
    """Files beside config.toml belong to all versions, and are read once."""
    known = {mark: sum_of for version in before.values() for mark, sum_of in version.sums.items()}
    read = {mark: known.get(mark) or _read(mark) for mark in marks}
    sums = {mark: sum_of for mark, sum_of in read.items() if sum_of is not None}
    return _Version(marks, UNREAD if len(sums) < len(marks) else _word(directory, number, sums), sums)


def _word(directory: Path, number: int, sums: Mapping[_Mark, str]) -> str:
    found = {str(Path(mark[0]).relative_to(directory)): sum_of for mark, sum_of in sums.items()}
    own = {name: sum_of for name, sum_of in found.items() if name.startswith("%d/" % number)}
    return "%s:%s" % (_one(own), _one(found))


def _read(mark: _Mark) -> Optional[str]:
    """None where the file is another one by now."""
    path = Path(mark[0])
    try:
        sum_of, stat = digest(path), path.stat()
    except OSError:
        return None
    return sum_of if (stat.st_size, stat.st_mtime_ns, stat.st_ino) == mark[1:] else None


def _one(sums: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(sorted(sums.items())).encode()).hexdigest()
