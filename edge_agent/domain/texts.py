"""What a code says, in the two languages of the people who read it."""

from __future__ import annotations

from typing import NamedTuple


class Text(NamedTuple):
    """One thing said in two languages; `{name}` is filled from the code's args."""

    en: str
    zh: str


class Code(NamedTuple):
    """What happened, and what to do about it (empty where there is nothing to do)."""

    reason: Text
    cure: Text


def code(en: str, zh: str, cure_en: str = "", cure_zh: str = "") -> Code:
    """A row of the table, languages beside each other."""
    return Code(Text(en, zh), Text(cure_en, cure_zh))
