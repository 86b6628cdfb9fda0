"""The file by which a test and the libcuda.so.1 of this folder speak, mapped by both: see libcuda/state.c."""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path
from typing import Dict, List

_BYTES = 4096
_MAGIC = 0x4355444154455354
_ORDERS_AT = 512
_ORDERS = 16
_ORDER = struct.Struct("<40sqqq")
_HEADER = Path(__file__).resolve().parent / "libcuda" / "libcuda.h"

#: what counts objects that are alive
LIVE = (
    "contexts", "streams", "events", "allocations", "allocated_bytes", "host_allocations", "host_bytes", "registered",
    "graphs", "graph_execs",
)  # fmt: skip

_DEFAULTS = {
    "memory_limit": 8 << 30,
    "compute_major": 8,
    "compute_minor": 7,
    "integrated": 1,
    "driver_version": 12060,
    "device_count": 1,
    "multiprocessors": 8,
}


def _words() -> List[str]:
    """The names of the file's words, as the C header has them."""
    body = re.search(r"enum word \{(.*?)\};", _HEADER.read_text(), re.S)
    assert body is not None
    return re.findall(r"^    ([A-Z_]+),", body.group(1), re.M)


WORDS = {name.lower(): number for number, name in enumerate(_words())}


class DriverFile:
    """Tells a driver what to be and reads what it counts: `driver["streams"]`, `driver["sticky"] = 700`."""

    def __init__(self, path: Path, **choices: int) -> None:
        self.path = path
        path.write_bytes(bytes(_BYTES))
        self._file = open(path, "r+b")  # noqa: SIM115 - until close()
        self._map = mmap.mmap(self._file.fileno(), _BYTES)
        self["magic"] = _MAGIC
        for name, value in {**_DEFAULTS, **choices}.items():
            self[name] = value

    def __getitem__(self, name: str) -> int:
        return int(struct.unpack_from("<q", self._map, WORDS[name] * 8)[0])

    def __setitem__(self, name: str, value: int) -> None:
        struct.pack_into("<q", self._map, WORDS[name] * 8, value)

    def live(self) -> Dict[str, int]:
        """How many objects of each kind the driver's process has, without those of which it has none."""
        return {name: self[name] for name in LIVE if self[name]}

    def fail(self, function: str, code: int, skip: int = 0, repeat: bool = False) -> None:
        """The call of that name that follows `skip` others answers the code; with `repeat` all after it, too."""
        for number in range(_ORDERS):
            at = _ORDERS_AT + number * _ORDER.size
            if _ORDER.unpack_from(self._map, at)[1] == 0:
                _ORDER.pack_into(self._map, at, function.encode(), code, skip, int(repeat))
                return
        raise ValueError("%d orders wait already" % _ORDERS)

    def forgive(self) -> None:
        """Takes back all that `fail` said."""
        self._map[_ORDERS_AT : _ORDERS_AT + _ORDERS * _ORDER.size] = bytes(_ORDERS * _ORDER.size)

    def close(self) -> None:
        """The mapping is gone; the file stays."""
        self._map.close()
        self._file.close()
