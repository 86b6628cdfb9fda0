"""Lives of a child that end before its first word: after the second in a row, whoever waits for the child hears why."""

from __future__ import annotations

import asyncio
import errno
from typing import Optional

from edge_agent.errors import ChildGone

CODE = "child.cannot_start"
_DIED = "child.died"

_CERTAIN = 2  #: false starts in a row
#: the machine is short of something just now, which says nothing about the child
_SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)


class FalseStarts:
    """Counts them. What is told holds until the next life begins: who asks then hears how that one goes."""

    def __init__(self, name: str) -> None:
        self.text = ""  #: what is told
        self.code = _DIED  #: of the end of the present life, or the last one
        self.told: Optional[asyncio.Future[None]] = None  #: done when the last life was a false start once too often
        self._name = name
        self._in_a_row = 0
        self._spoke = False

    def begin(self) -> None:
        """A life begins."""
        if self.told is None or self.told.done():
            self.told = asyncio.get_running_loop().create_future()
        self._spoke, self.code = False, _DIED

    def spoke(self) -> None:
        """The child has answered: how it ends is another story."""
        self._spoke = True
        self._in_a_row = 0

    def refused(self, error: ChildGone) -> str:
        """There is no process for it, and why: that counts unless the machine is only short of something."""
        cause = error.__cause__
        passes = isinstance(cause, OSError) and cause.errno in _SHORTAGES
        return str(error) if passes else self.ended(str(error))

    def ended(self, reason: str) -> str:
        """The life ended by itself, or never had a process; the reason again."""
        if self._spoke:
            return reason
        self.code = CODE
        self._in_a_row += 1
        if self._in_a_row >= _CERTAIN and self.told is not None and not self.told.done():
            prefix = "%s cannot be started: " % self._name
            self.text = reason if reason.startswith(prefix) else prefix + reason
            self.told.set_result(None)
        return reason
