"""Versions that were refused, and whether what lies on disk now is still that."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, Dict, Mapping, Optional, Tuple

from edge_agent.serving.promotion.content import UNREAD, Contents
from edge_agent.serving.repository import Fingerprint, Marks, ModelEntry

_MOST = 100  #: of one model; the oldest are forgotten


@dataclass(frozen=True)
class Refusal:
    """A version that is not loaded until its files change or an operator promotes it."""

    fingerprint: str  #: what its files hold, see content.py; empty while that was never read
    code: str
    reason: str
    at: str  #: RFC 3339 UTC
    seen: str = ""  #: size, time and identity of its files, when they were last known to be those: see `mark_of`

    def holds(self, word: str) -> bool:
        """Whether files that hold that are still those that were refused; what cannot be read is not known to be others.

        What an operator took back is judged by the version's own files: another config.toml is not another version.
        """
        if word == UNREAD:
            return True
        if self.code == "model.rolled_back":
            return word.partition(":")[0] == self.fingerprint.partition(":")[0]
        return word == self.fingerprint

    def as_json(self) -> Dict[str, str]:
        """An entry of `refused`."""
        fields = {"fingerprint": self.fingerprint, "code": self.code, "reason": self.reason, "at": self.at}
        return {**fields, "seen": self.seen} if self.seen else fields

    @classmethod
    def from_json(cls, fields: Any, form: int) -> Refusal:
        """The opposite; whatever is none raises. In form 1 `fingerprint` was either of the two."""
        words = [fields[key] for key in ("fingerprint", "code", "reason", "at")] + [fields.get("seen", "")]
        if not all(isinstance(word, str) for word in words):
            raise TypeError("a refusal is made of texts")
        if form == 1 and ":" not in words[0]:
            words[0], words[4] = "", words[0]
        return cls(*words)


def mark_of(marks: Fingerprint) -> str:
    """Size, time and identity of files in one word."""
    return hashlib.sha256(json.dumps(marks).encode()).hexdigest()


def made_of_files(entry: ModelEntry, number: int, mark: Fingerprint, contents: Contents, sha256: str = "") -> Tuple[str, str]:
    """What the files of a version hold and how they look, for its refusal. Blocks.

    `sha256`: of its model where it was loaded from files that looked otherwise: other content is not what was refused.
    """
    word = contents.word(entry, number, mark)
    (version,) = entry.only(number).versions
    if sha256 and contents.sum_of(entry, number, version.truth) not in ("", sha256):
        return "loaded:" + sha256, ""
    return "" if word == UNREAD else word, mark_of(mark)


def still_refused(refused: Mapping[int, Refusal], entry: ModelEntry, marks: Marks, contents: Contents) -> Dict[int, Refusal]:
    """Those that hold, with how their files are seen now; a version that is away may come back as it was. Blocks.

    Files are read only where they look otherwise than when they were refused, or were never read.
    """
    found = {}
    for number, refusal in refused.items():
        renewed = _renewed(refusal, entry, number, marks[number], contents) if number in marks else refusal
        if renewed is not None:
            found[number] = renewed
    contents.keep_only(entry.name, [number for number in found if number in marks])
    return dict(sorted(found.items(), key=lambda item: item[1].at)[-_MOST:])


def _renewed(refusal: Refusal, entry: ModelEntry, number: int, mark: Fingerprint, contents: Contents) -> Optional[Refusal]:
    seen = mark_of(mark)
    if refusal.seen == seen and refusal.fingerprint:
        return refusal
    word = contents.word(entry, number, mark)
    if word == UNREAD:
        return refusal
    if refusal.seen == seen:
        return replace(refusal, fingerprint=word)
    return replace(refusal, seen=seen) if refusal.holds(word) else None
