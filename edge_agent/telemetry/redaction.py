"""Takes secrets out of text before it is shown or kept: the one place that knows what they look like.

Rather a word too many than a password: what is taken out is for people only. Each pattern looks back or ahead a bounded
number of characters, so that a long text costs no more than its length.
"""

from __future__ import annotations

import re
from typing import Any, Mapping

#: a name in front of = or : whose value is a secret
_SECRET = r"(?:pass(?:word|wd|phrase|code)|pwd|secret|token|api[_-]?key)"
#: the same in the query of an address, where a word is a name for certain
_SECRET_IN_QUERY = r"(?:pass|pwd|secret|token|key|auth|sig|credential)"

_DEEPEST = 100

_USER = re.compile(r"(?<=://)[^\s/?#<>]*@")
#: a password with / ? or # as it should not be written; a port is none
_ODD_PASSWORD = re.compile(r"(?<=://)[^\s/?#@:<>\[]{0,128}:(?!\d{0,5}(?:[/?#\s]|$))[^\s<>]{0,256}@")
_QUERY = re.compile(
    r"(?P<name>[?&][\w.%%-]{0,40}?%s[\w.%%-]{0,40}=)(?:[^&\s\"'<>]|'(?![\s,;:)\]}.]|$))*" % _SECRET_IN_QUERY, re.IGNORECASE
)
_AUTHORIZATION = re.compile(r"\b(?P<scheme>Bearer|Basic)(?P<gap>\s+)(?!realm)[A-Za-z0-9._~+/=-]{4,}", re.IGNORECASE)
_NAMED = re.compile(r"(?P<name>%s['\"]?\s{0,8}[=:]\s{0,8}['\"]?)(?!\*\*\*)[^\s'\"&,;}]+" % _SECRET, re.IGNORECASE)


def redact(text: str) -> str:
    """The text without user names and passwords of addresses, secret parameters, tokens and values named password or token."""
    if "://" in text and "@" in text:
        text = _ODD_PASSWORD.sub("***@", _USER.sub("***@", text))
    if "=" in text:
        text = _QUERY.sub(r"\g<name>***", text)
    text = _AUTHORIZATION.sub(r"\g<scheme>\g<gap>***", text)
    return _NAMED.sub(r"\g<name>***", text)


def redact_all(value: Any, depth: int = 0) -> Any:
    """A value as JSON takes it, with every text in it redacted; keys stay. ValueError when it contains itself."""
    if depth > _DEEPEST:
        raise ValueError("nested deeper than %d levels" % _DEEPEST)
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: redact_all(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redact_all(item, depth + 1) for item in value]
    return value
