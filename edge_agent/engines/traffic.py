"""Who may run in a host now: a request that is retried after its host died runs with nothing beside it."""

from __future__ import annotations

from typing import Callable, List


class Traffic:
    """Counts the batches that one host holds, of all its models together."""

    def __init__(self) -> None:
        self.held = 0
        self._alone = False  #: the batch it holds runs alone
        self._emptying = False  #: somebody waits to run alone: nothing new until the host is empty
        self._listeners: List[Callable[[], None]] = []

    @property
    def open(self) -> bool:
        """Whether ordinary batches may be sent."""
        return not self._alone and not self._emptying

    def listen(self, listener: Callable[[], None]) -> None:
        """`listener` is called when the host is open again after a lone batch, or empty for one."""
        self._listeners.append(listener)

    def may_run_alone(self) -> bool:
        """Whether the host is empty; if not, it is let run empty, and listeners hear of it."""
        if self.held == 0:
            return True
        self._emptying = True
        return False

    def began(self, alone: bool) -> None:
        """A batch was sent."""
        self.held += 1
        self._alone = alone

    def ended(self) -> None:
        """A batch was answered."""
        self.held -= 1
        if self.held == 0 and not self.open:
            self.reset()
            for listener in self._listeners:
                listener()

    def reset(self) -> None:
        """The host ended: it holds nothing."""
        self.held = 0
        self._alone = self._emptying = False
