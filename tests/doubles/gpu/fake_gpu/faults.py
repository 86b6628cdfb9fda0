"""What shall go wrong now: a JSON file that a test changes while the child runs, so it is read anew each time."""

import json
import os
import time

from fake_gpu import settings

_PATIENCE_S = 0.01
_TRIES = 50
_GATE_S = 0.005


def get(name, default=None):
    """The fault of that name; a file that is just being written is read again."""
    if not settings.FAULTS:
        return default
    for attempt in range(_TRIES):
        try:
            with open(settings.FAULTS) as file:
                return json.load(file).get(name, default)
        except OSError:
            return default
        except ValueError:
            if attempt == _TRIES - 1:
                raise
            time.sleep(_PATIENCE_S)
    return default


def wait_for_gate(name):
    """Waits while the file exists that the fault of that name tells."""
    while True:
        path = get(name)
        if not path or not os.path.exists(path):
            return
        time.sleep(_GATE_S)


def crash():
    """Ends the process as a library's null pointer does."""
    import ctypes

    ctypes.string_at(0)


def hang():
    """Never returns; other threads go on."""
    while True:
        time.sleep(3600)


def hang_with_gil():
    """Never returns, and no other thread of Python runs meanwhile."""
    import ctypes

    while True:
        ctypes.PyDLL(None).sleep(3600)
