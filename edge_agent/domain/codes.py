"""Every code with its reason and cure, English and Chinese beside each other: the one table."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple


class Text(NamedTuple):
    """One thing said in two languages; `{name}` is filled from the code's args."""

    en: str
    zh: str


class Code(NamedTuple):
    """What happened, and what to do about it."""

    reason: Text
    cure: Text


CODES: Dict[str, Code] = {
    "camera.unreachable": Code(
        Text("The camera does not answer at {source}.", "摄像机 {source} 没有响应。"),
        Text("Check its power, its cable and its address.", "请检查电源、网线和地址。"),
    ),
}


def _fill(text: str, args: Mapping[str, Any]) -> str:
    class _Shown(Dict[str, Any]):
        def __missing__(self, key: str) -> str:
            return "?"

    return text.format_map(_Shown(args))


def reason(code: str, args: Mapping[str, Any], language: str = "en") -> str:
    """What happened, in words; empty for the empty code."""
    return _fill(getattr(CODES[code].reason, language), args) if code else ""


def cure(code: str, args: Mapping[str, Any], language: str = "en") -> str:
    """What to do about it; empty for the empty code."""
    return _fill(getattr(CODES[code].cure, language), args) if code else ""
