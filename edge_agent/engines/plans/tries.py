"""How often a plan was tried: `tries.json`. Few times a boot, with pauses, and never where it cannot help."""

from __future__ import annotations

import json
import logging
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Dict, Optional

from edge_agent.config.durable import write_durably
from edge_agent.domain.clock import Clock

_log = logging.getLogger(__name__)

TRIES_A_BOOT = 3
_BACKOFF_S = (30.0, 120.0, 480.0)
_MAX_KEYS = 256
_MAX_BYTES = 8 << 20
_MAX_REASON = 500
_SCHEMA = 1
_ENDED = ("build.killed", "the agent ended during the build")


@dataclass
class _Entry:
    """What is known of one key."""

    boot: str = ""  #: the boot that `tries` counts in
    tries: int = 0
    failures: int = 0  #: over all boots
    at_ns: int = 0  #: monotonic, of the last begin or failure; means something in its boot only
    open: bool = False  #: begun, and not ended yet
    permanent: bool = False
    code: str = ""
    reason: str = ""


class Tries:
    """Three tries a key and boot of the box, over any number of runs of the agent."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._entries: Dict[str, _Entry] = {}
        self._told = False

    def load(self) -> None:
        """Reads what earlier runs have left; a try that they did not end has failed. A damaged file is none, and told."""
        try:
            with self._path.open("rb") as file:
                self._entries = _decode(file.read(_MAX_BYTES + 1))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, RecursionError) as exc:
            _log.warning("tries of builds are forgotten: %s: %s", self._path, exc)
            return
        for entry in self._entries.values():
            self._clamp(entry)
            if entry.open:
                self._fail(entry, *_ENDED)

    def may_try(self, key: str) -> Optional[float]:
        """Seconds until the next try; None when there is none (in this boot, or ever)."""
        entry = self._entries.get(key)
        if entry is None:
            return 0.0
        if entry.permanent or entry.open or self._tries(entry) >= TRIES_A_BOOT:
            return None
        if not entry.failures:
            return 0.0
        backoff_s = _BACKOFF_S[min(entry.failures, len(_BACKOFF_S)) - 1]
        since_ns = entry.at_ns if entry.boot == self._clock.boot_id else 0  # the clock starts with the boot
        return max(since_ns / 1e9 + backoff_s - self._clock.monotonic(), 0.0)

    def tries(self, key: str) -> int:
        """How often it was tried in this boot."""
        entry = self._entries.get(key)
        return 0 if entry is None else self._tries(entry)

    def begin(self, key: str) -> None:
        """A try begins: it counts from now, even if the box goes down with it."""
        entry = self._entry(key)
        if not entry.open:
            self._count(entry)
            entry.open = True
        self._save()

    def cancel(self, key: str) -> None:
        """The try that began was called off by the agent itself: it does not count."""
        entry = self._entries.get(key)
        if entry is not None and entry.open:
            entry.open = False
            entry.tries -= 1
            self._save()

    def succeeded(self, key: str) -> None:
        """The try gave a plan that is good, so it does not count. What fails later does: it is not built for ever."""
        entry = self._entries.get(key)
        if entry is not None:
            if entry.open:
                entry.tries -= 1
            entry.open, entry.failures, entry.code, entry.reason = False, 0, "", ""
            self._save()

    def failed(self, key: str, code: str, reason: str, permanent: bool) -> None:
        """A try failed, for good when `permanent`."""
        entry = self._entry(key)
        if not entry.open:
            self._count(entry)
        entry.permanent = permanent
        self._fail(entry, code, reason)
        self._save()

    def clear(self, key: str) -> None:
        """It is built, or somebody wants it tried anew."""
        if self._entries.pop(key, None) is not None:
            self._save()

    def code(self, key: str) -> str:
        """Why the last try failed, for machines; empty when none did."""
        entry = self._entries.get(key)
        return "" if entry is None else entry.code

    def reason(self, key: str) -> str:
        """Why the last try failed, for people; empty when none did."""
        entry = self._entries.get(key)
        return "" if entry is None else entry.reason

    def permanent(self, key: str) -> bool:
        """Whether trying again cannot help."""
        entry = self._entries.get(key)
        return entry is not None and entry.permanent

    def _entry(self, key: str) -> _Entry:
        """The key's own, made if there is none; the youngest stay when there are too many."""
        entry = self._entries.pop(key, None) or _Entry()
        while len(self._entries) >= _MAX_KEYS:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = entry
        return entry

    def _clamp(self, entry: _Entry) -> None:
        """Nothing was tried less than never, or later than now."""
        entry.tries, entry.failures = max(entry.tries, 0), max(entry.failures, 0)
        entry.at_ns = min(max(entry.at_ns, 0), self._clock.monotonic_ns())

    def _tries(self, entry: _Entry) -> int:
        return entry.tries if entry.boot == self._clock.boot_id else 0

    def _count(self, entry: _Entry) -> None:
        entry.tries = self._tries(entry) + 1
        entry.boot = self._clock.boot_id
        entry.at_ns = self._clock.monotonic_ns()

    def _fail(self, entry: _Entry, code: str, reason: str) -> None:
        entry.open = False
        entry.failures = min(entry.failures + 1, len(_BACKOFF_S))
        entry.code, entry.reason = code, reason[:_MAX_REASON]
        if entry.boot == self._clock.boot_id:
            entry.at_ns = self._clock.monotonic_ns()

    def _save(self) -> None:
        document = {"schema": _SCHEMA, "keys": {key: asdict(entry) for key, entry in self._entries.items()}}
        try:
            write_durably(self._path, json.dumps(document, indent=1).encode("ascii"))
        except OSError as exc:
            if not self._told:
                _log.warning("tries of builds cannot be kept over a restart: %s: %s", self._path, exc.strerror)
            self._told = True
        else:
            self._told = False


def _decode(data: bytes) -> Dict[str, _Entry]:
    """Raises ValueError, TypeError."""
    if len(data) > _MAX_BYTES:
        raise ValueError("it is over %d bytes" % _MAX_BYTES)
    document: Any = json.loads(data.decode("utf-8"))
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA or not isinstance(document.get("keys"), dict):
        raise ValueError("it is not of this version of the agent")
    entries = {key: _Entry(**table) for key, table in list(document["keys"].items())[-_MAX_KEYS:]}
    for entry in entries.values():
        for kind in fields(_Entry):
            if type(getattr(entry, kind.name)) is not type(kind.default):
                raise ValueError("%s is not what it should be" % kind.name)
    return entries
