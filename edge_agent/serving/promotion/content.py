"""What the files of a version hold, in one word: files that are only touched or copied anew stay the same."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Dict, Mapping, Optional, Tuple

from edge_agent.serving.repository import Fingerprint, Marks, ModelEntry, digest

UNREAD = "?"  #: the word of files that cannot be read, or change as they are read
_MOST = 4096  #: files whose digests are kept

_Mark = Tuple[str, int, int, int]


class Contents:
    """Reads each file once for each size, time and identity that it has. Threads of a pool may share it."""

    def __init__(self) -> None:
        self._known: OrderedDict[_Mark, str] = OrderedDict()
        self._lock = threading.Lock()

    def words(self, entry: ModelEntry, marks: Marks) -> Mapping[int, str]:
        """Of each version; blocks while it reads."""
        return {number: self._word(entry.directory, number, mark, True) or UNREAD for number, mark in marks.items()}

    def known(self, entry: ModelEntry, number: int, mark: Fingerprint) -> Optional[str]:
        """The word of a version's files as they once were; None where they were not read then."""
        return self._word(entry.directory, number, mark, False)

    def _word(self, directory: Path, number: int, marks: Fingerprint, read: bool) -> Optional[str]:
        """Of the version's own files, and behind a colon of all that it is made of."""
        found: Dict[str, str] = {}
        for mark in marks:
            sum_of = self._sum(mark, read)
            if sum_of is None:
                return None
            found[str(Path(mark[0]).relative_to(directory))] = sum_of
        own = {name: sum_of for name, sum_of in found.items() if name.startswith("%d/" % number)}
        return "%s:%s" % (_one(own), _one(found))

    def _sum(self, mark: _Mark, read: bool) -> Optional[str]:
        with self._lock:
            sum_of = self._known.get(mark)
            if sum_of is not None:
                self._known.move_to_end(mark)
        if sum_of is None and read:
            sum_of = _read(mark)
            if sum_of is not None:
                self._keep(mark, sum_of)
        return sum_of

    def _keep(self, mark: _Mark, sum_of: str) -> None:
        with self._lock:
            self._known[mark] = sum_of
            while len(self._known) > _MOST:
                self._known.popitem(last=False)


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
