"""Takes secrets out of text before it is shown or kept."""

from __future__ import annotations

import re

_IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/?#'\"<>]*@")
_AUTHORIZATION = re.compile(r"\b(?P<scheme>Bearer|Basic)(?P<gap>\s+)(?!realm)[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE)
_NAMED = re.compile(r"(?P<name>\b(?:password|passwd|secret|token)\b['\"]?\s*[=:]\s*['\"]?)[^\s'\"&,;}]+", re.IGNORECASE)


def redact(text: str) -> str:
    """The text without user names and passwords of addresses, tokens and values named password or token."""
    if "@" in text:
        text = _IN_ADDRESS.sub(r"\g<scheme>***@", text)
    text = _AUTHORIZATION.sub(r"\g<scheme>\g<gap>***", text)
    return _NAMED.sub(r"\g<name>***", text)
