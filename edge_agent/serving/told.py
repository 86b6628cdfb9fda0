"""What callers are told of errors: nothing of where things lie on this machine."""

from __future__ import annotations

import re

_FOLDERS = re.compile(r"(?<![\w:/.])/(?:[^/'\":;,\n]+/)+")


def without_folders(text: str) -> str:
    """The text with file names alone where whole paths were."""
    return _FOLDERS.sub("", text)
