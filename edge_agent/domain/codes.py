"""Every code with its reason and cure, English and Chinese beside each other: the one table."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from edge_agent.domain.codes_build import BUILDS
from edge_agent.domain.codes_engines import ENGINES
from edge_agent.domain.codes_house import HOUSE
from edge_agent.domain.codes_models import MODELS
from edge_agent.domain.codes_sources import SOURCES
from edge_agent.domain.texts import Code, Text

__all__ = ["CODES", "Code", "Text", "cure", "reason"]

CODES: Dict[str, Code] = {**SOURCES, **MODELS, **ENGINES, **BUILDS, **HOUSE}


class _Shown(Dict[str, Any]):
    """A value that was not given shows as a question mark, never as an exception."""

    def __missing__(self, key: str) -> str:
        return "?"


def reason(code: str, args: Mapping[str, Any], language: str = "en") -> str:
    """What happened, in words; empty for the empty code, the code itself when the table lacks it."""
    if not code:
        return ""
    row = CODES.get(code)
    return code if row is None else _text(row.reason, language).format_map(_Shown(args))


def cure(code: str, args: Mapping[str, Any], language: str = "en") -> str:
    """What to do about it; empty where there is nothing to do or the table lacks the code."""
    row = CODES.get(code)
    return "" if row is None else _text(row.cure, language).format_map(_Shown(args))


def _text(text: Text, language: str) -> str:
    return text.zh if language == "zh" else text.en
