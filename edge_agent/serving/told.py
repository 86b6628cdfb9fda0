"""What callers are told of errors: nothing of where things lie on this machine."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Iterable, Optional, Type

from edge_agent import errors

_BEFORE = r"(?<![\w.-])"  #: no longer path ends with the folder's
_AFTER = r"(?![\w-]|[.]\w)"  #: nor does a longer name begin with its name


class Told:
    """Texts for callers, whose paths begin at the folders that the agent was given. As a context: of the errors in it."""

    def __init__(self, repositories: Iterable[Path], state_dir: Optional[Path]) -> None:
        given = [*repositories, *([] if state_dir is None else [state_dir]), Path(tempfile.gettempdir())]
        spelt = {spell(str(path)) for path in given for spell in (os.path.abspath, os.path.realpath)} - {os.sep}
        longest_first = sorted(spelt, key=lambda root: (-len(root), root))
        roots = "|".join(re.escape(root) for root in longest_first)
        self._within = re.compile(r"%s(?:%s)/+(?=[^/\s:;,'\"])" % (_BEFORE, roots))
        self._alone = re.compile("%s(?:%s)%s" % (_BEFORE, roots, _AFTER))

    def text(self, text: str) -> str:
        """The text as a caller may read it; operators have the whole one in status, events and log."""
        return self._alone.sub(lambda found: os.path.basename(found.group()), self._within.sub("", text))

    def __enter__(self) -> None:
        """Errors of the agent leave it as callers may read them."""

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        """Another error takes the place of one that must be told otherwise: the first may be somebody's state."""
        if not isinstance(error, errors.EdgeAgentError):
            return
        text = self.text(str(error))
        if text != str(error):
            told = type(error).__new__(type(error), text)
            vars(told).update(vars(error))
            raise told from error
