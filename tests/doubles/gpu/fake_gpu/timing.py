"""The timing cache: which models were measured before, of one version and device."""

import json

from fake_gpu import native, settings
from fake_gpu.values import IHostMemory


class ITimingCache(native.Native):
    """Serializes to JSON. A cache of another version or device does not fit."""

    def __init__(self, data=b""):
        self._known = set()
        self._origin = origin()
        if data:
            fields = json.loads(bytes(data).decode())
            self._known, self._origin = set(fields["known"]), fields["origin"]

    def serialize(self):
        return IHostMemory(json.dumps({"origin": self._origin, "known": sorted(self._known)}).encode())

    def combine(self, input_cache, ignore_mismatch):
        if input_cache._origin != self._origin and not ignore_mismatch:
            return False
        self._known |= input_cache._known
        return True

    def reset(self):
        self._known = set()
        return True


def origin():
    """What a cache must be of to fit."""
    return "%s on %s" % (settings.VERSION, ".".join(str(part) for part in settings.COMPUTE_CAPABILITY))
