"""Free ports, and processes that do not outlive the demo."""

from __future__ import annotations

import ctypes
import signal
import socket

_PR_SET_PDEATHSIG = 1


class Ended(Exception):
    """Somebody sent SIGTERM to the demo."""


def ends_with_parent() -> None:
    """In a new child: the kernel sends SIGTERM when the demo ends, however it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def free_port(wanted: int) -> int:
    """`wanted` or the next above it that nobody on this machine listens on; any where none of the next hundred is free."""
    for port in [*range(wanted, min(wanted + 100, 65536)), 0]:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", port))
                trial.listen(1)
            except OSError:
                continue
            return int(trial.getsockname()[1])
    raise OSError("no free port on 127.0.0.1")
