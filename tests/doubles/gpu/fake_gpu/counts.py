"""How many objects of each kind are alive; kept in a file too where the test named one."""

import json
import os
import threading

from fake_gpu import settings

_lock = threading.RLock()  # a destructor may run while this thread counts
_live = {}


def add(kind, number=1):
    """One more, or with -1 one less."""
    with _lock:
        _live[kind] = _live.get(kind, 0) + number
        if settings.STATS:
            _write()


def live():
    """{kind: how many}, without those of which there is none."""
    with _lock:
        return {kind: number for kind, number in _live.items() if number}


def _write():
    temporary = "%s.%d" % (settings.STATS, os.getpid())
    with open(temporary, "w") as file:
        json.dump({kind: number for kind, number in _live.items() if number}, file)
    os.replace(temporary, settings.STATS)


class Counted:
    """An object that counts from its making to `_release`, at the latest its end."""

    _counted = False

    def _count(self):
        self._counted = True
        add(type(self).__name__)

    def _release(self):
        """True for the first call only."""
        if not self._counted:
            return False
        self._counted = False
        add(type(self).__name__, -1)
        return True

    def __del__(self):
        self._release()
