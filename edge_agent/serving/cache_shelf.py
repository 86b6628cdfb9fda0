"""Answers in the database, as the loop sees them: which there may be, and whose they are."""

from __future__ import annotations

import asyncio
import logging
from typing import Dict, List, Mapping, Optional, Protocol, Set, Tuple

from edge_agent import errors
from edge_agent.domain.clock import Clock
from edge_agent.serving.cache_answer import Answer
from edge_agent.serving.cache_key import tag_of

_log = logging.getLogger(__name__)

_ROW_BYTES = 1024  #: no row counts less against the bound, so there are no more rows than that allows
_FIND_S = 0.05  #: longest wait for an answer on disk: running the model may be quicker
_FINDS_MAX = 4  #: questions at a time; other readers of the database want their turn
_START_S = 2.0
_COUNT_EVERY_S = 300.0  #: hits are written this often: each is a row anew, and cards wear out
_COUNTED_MAX = 1000

_Whose = Tuple[str, str]  #: model, version


class Shelf(Protocol):
    """What of the store is needed; nothing of it waits for the disk but what is awaited."""

    max_bytes: int

    def keep(self, key: str, model: str, version: str, value: bytes) -> bool:
        """Keeps an answer."""

    def count(self, hits: Mapping[str, int]) -> bool:
        """Notes that answers were given again."""

    def forget(self, model: str = "", version: str = "", but: str = "") -> bool:
        """Deletes answers: all, of one model, of one version; not those whose key begins with `but`."""

    async def find(self, key: str) -> Optional[bytes]:
        """An answer."""

    async def keys(self) -> List[Tuple[str, str, str]]:
        """Key, model and version of each."""


class AnswerShelf:
    """Asks the disk only for keys that it may have, and not for long."""

    def __init__(self, shelf: Shelf, clock: Clock) -> None:
        self._shelf = shelf
        self._clock = clock
        self._max_rows = shelf.max_bytes // _ROW_BYTES
        self._known: Dict[int, None] = {}  #: beginnings of keys, oldest first: small, and a wrong one costs one question
        self._tags: Dict[_Whose, Set[str]] = {}
        self._hits: Dict[str, int] = {}
        self._hits_since = 0.0
        self._finding = 0

    async def start(self) -> None:
        """Learns what an earlier run has left."""
        if not self._max_rows:
            self._shelf.forget()
            return
        try:
            rows = await asyncio.wait_for(self._shelf.keys(), _START_S)
        except (errors.StoreError, errors.QueueFull, asyncio.TimeoutError) as error:
            _log.warning("answers of the last run are not used: %s", error, extra={"code": "store.failed"})
            return
        for key, model, version in rows:
            self._learn(key, (model, version))

    def stop(self) -> None:
        """Writes what is counted."""
        if self._hits:
            self._shelf.count(self._hits)
            self._hits = {}

    def keep(self, key: str, model: str, version: str, answer: Answer) -> None:
        """Keeps an answer; nobody waits for it."""
        if self._max_rows and self._shelf.keep(key, model, version, answer.to_bytes()):
            self._learn(key, (model, version))

    async def find(self, key: str) -> Optional[Answer]:
        """The answer; None when there is none or the disk is slow."""
        if _number(key) not in self._known or self._finding >= _FINDS_MAX:
            return None
        self._finding += 1
        try:
            value = await asyncio.wait_for(self._shelf.find(key), _FIND_S)
            if value is not None:
                return Answer.from_bytes(value)
        except (errors.StoreError, errors.QueueFull, asyncio.TimeoutError, ValueError):
            return None  # the model answers as well
        finally:
            self._finding -= 1
        self._known.pop(_number(key), None)
        return None

    def hit(self, key: str) -> None:
        """The answer was given again."""
        if _number(key) not in self._known:
            return
        now = self._clock.monotonic()
        if not self._hits:
            self._hits_since = now
        self._hits[key] = self._hits.get(key, 0) + 1
        if now - self._hits_since >= _COUNT_EVERY_S or len(self._hits) >= _COUNTED_MAX:
            self.stop()

    def only(self, model: str, version: str, tag: str = "") -> Set[str]:
        """Deletes the version's answers but those of `tag`; the tags that are gone."""
        known = self._tags.pop((model, version), set())
        gone = known - {tag}
        if tag in known:
            self._tags[(model, version)] = {tag}
        if gone:
            self._shelf.forget(model, version, tag)
        return gone

    def versions(self, model: str) -> List[str]:
        """Versions of the model that have answers here."""
        return [version for name, version in self._tags if name == model]

    def _learn(self, key: str, whose: _Whose) -> None:
        self._tags.setdefault(whose, set()).add(tag_of(key))
        self._known[_number(key)] = None
        if len(self._known) > self._max_rows:
            del self._known[next(iter(self._known))]


def _number(key: str) -> int:
    return hash(key) & 0xFFFFFFFFFFFF
