"""Tells the service manager how the agent is, as sd_notify(3) does; a no-op without one."""

from __future__ import annotations

import os
import socket
from typing import Mapping, Optional


class ServiceManager:
    """The socket in NOTIFY_SOCKET; every call is cheap, never blocks and never raises."""

    def __init__(self, environ: Mapping[str, str], pid: Optional[int] = None) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._watchdog_s = _watchdog_s(environ, os.getpid() if pid is None else pid)

    @property
    def watchdog_interval_s(self) -> Optional[float]:
        """How often watchdog() should be called: half of what the manager waits; None when it does not watch."""
        return None if self._watchdog_s is None else self._watchdog_s / 2

    def ready(self, status: str = "") -> None:
        """The start is complete."""
        self._send("READY=1", *([f"STATUS={status}"] if status else []))

    def status(self, text: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={text}")

    def stopping(self) -> None:
        """The stop has begun."""
        self._send("STOPPING=1")

    def watchdog(self) -> None:
        """There was real progress."""
        self._send("WATCHDOG=1")

    def extend_timeout(self, us: int) -> None:
        """The start or stop under way needs this many more microseconds."""
        self._send(f"EXTEND_TIMEOUT_USEC={us}")

    def _send(self, *lines: str) -> None:
        if self._address[:1] not in {"/", "@"}:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        message = "\n".join(line.replace("\n", " ") for line in lines).encode("utf-8", "replace")
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as to_manager:
                to_manager.setblocking(False)
                to_manager.sendto(message, address)
        except (OSError, ValueError):
            # a manager that went away must not take the agent along; ValueError: a NUL inside the path
            return


def _watchdog_s(environ: Mapping[str, str], pid: int) -> Optional[float]:
    """Seconds the manager waits for a sign of life; WATCHDOG_PID says which process it means."""
    try:
        micros = int(environ.get("WATCHDOG_USEC", ""))
    except ValueError:
        return None
    meant = environ.get("WATCHDOG_PID", "")
    if micros <= 0 or (meant and meant != str(pid)):
        return None
    return micros / 1e6
