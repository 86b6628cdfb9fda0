"""The board's values, read beside the loop every few seconds; who asks gets the last ones."""

from __future__ import annotations

import threading
from typing import Any, Dict, Optional

from edge_agent.device.sysfs import DeviceReader

_INTERVAL_S = 2.0


class DeviceSampler:
    """Reads in a daemon thread of its own: some sensors answer over a slow bus, and one that hangs holds up nobody."""

    def __init__(self, reader: DeviceReader, interval_s: float = _INTERVAL_S) -> None:
        self.values: Dict[str, Any] = {}
        self._reader = reader
        self._interval_s = interval_s
        self._stopping = threading.Event()
        self._thread: Optional[threading.Thread] = None

    async def start(self) -> None:
        """Begins to read; values come when there are some."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="device", daemon=True)
            self._thread.start()

    async def stop(self) -> None:
        """Ends the reading; a read that hangs ends with the process."""
        self._stopping.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            self.values = self._reader.read()
            self._stopping.wait(self._interval_s)
