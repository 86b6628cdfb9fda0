"""Who may run in a host now: a request that is retried after its host died runs with nothing beside it."""

from __future__ import annotations

import contextlib
from typing import Callable, Iterator, List, Optional, Set

Listener = Callable[[], None]


class Traffic:
    """Counts the batches that one host holds, of all its models together."""

    def __init__(self) -> None:
        self.held = 0
        self._alone = False  #: the batch it holds runs alone
        self._waiting: List[Listener] = []  #: who waits to run alone: nothing new until the host is empty
        self._calling: Set[int] = set()  #: instances whose model waits for another, maybe one of this host
        self._loads = 0
        self._when_empty: Optional[Listener] = None  #: nothing new until the process was replaced
        self._listeners: List[Listener] = []

    @property
    def open(self) -> bool:
        """Whether ordinary batches may be sent."""
        return bool(self._calling) or (not self._alone and not self._waiting and self._when_empty is None)

    @property
    def loading(self) -> bool:
        """Whether a model is being loaded: the host's end may be its doing."""
        return self._loads > 0

    def listen(self, listener: Listener) -> None:
        """`listener` is called whenever batches may be sent that could not be before."""
        self._listeners.append(listener)

    def forget(self, listener: Listener) -> None:
        """The opposite of `listen`."""
        if listener in self._listeners:
            self._listeners.remove(listener)

    def may_run_alone(self, listener: Listener) -> bool:
        """Whether nothing else runs or is being loaded; if not, the host is let run empty, then `listener` is called."""
        if self._loads or self._when_empty is not None:
            return False  # everybody is told when the loading has ended, or the new process has its models
        if self.held == 0:
            return True
        if listener not in self._waiting:
            self._waiting.append(listener)
        return False

    def calls(self, instance: int, whether: bool) -> None:
        """An instance begins, or ends, to wait for another model: until then the host cannot run empty."""
        before = self.open
        if whether:
            self._calling.add(instance)
        else:
            self._calling.discard(instance)
        if self.open and not before:
            for listener in list(self._listeners):
                listener()

    def began(self, alone: bool) -> None:
        """A batch was sent."""
        self.held += 1
        self._alone = alone

    def ended(self) -> None:
        """A batch was answered."""
        self.held -= 1
        if self.held:
            return
        if self._when_empty is not None:
            self._when_empty()
        elif not self.open:
            self._tell()

    def close(self, when_empty: Listener) -> None:
        """Nothing new until `reset`; `when_empty` is called once nothing runs. A model that calls another gets its answer."""
        self._when_empty = when_empty
        if not self.held:
            when_empty()

    @contextlib.contextmanager
    def load(self) -> Iterator[None]:
        """A model is loaded meanwhile, and nobody begins to run alone."""
        self._loads += 1
        try:
            yield
        finally:
            self._loads -= 1
            if not self._loads:
                for listener in list(self._listeners):
                    listener()

    def reset(self) -> None:
        """The host ended: it holds nothing."""
        self.held = 0
        self._alone = False
        self._waiting.clear()
        self._calling.clear()
        when_empty, self._when_empty = self._when_empty, None
        if when_empty is not None:
            when_empty()

    def _tell(self) -> None:
        """Who waits to run alone is asked first: the others would fill the host again, and again."""
        first, self._waiting = self._waiting, []
        self._alone = False
        for listener in (*first, *self._listeners):
            listener()
