"""The timing cache: what TensorRT has measured once need not be measured again, by this build's next try or another model."""

import os

from edge_agent.engine_host.build.output import write_file

_MAX_BYTES = 256 << 20


class TimingCache:
    """Lives through the tries of a build; `path` empty: nothing is read or written.

    `temporary` lies beside it until it is whole; the agent removes what a killed build leaves there.
    """

    def __init__(self, path, temporary):
        self._path = path
        self._temporary = temporary
        self._data = b""
        self._kept = b""
        self.warnings = []

    def read(self):
        """What former builds have left; a first build has nothing."""
        if not self._path:
            return
        try:
            with open(self._path, "rb") as file:
                self._data = file.read(_MAX_BYTES + 1)
        except FileNotFoundError:
            return
        except OSError as error:
            self.warnings.append("the timing cache cannot be read: %s" % error)
        if len(self._data) > _MAX_BYTES:
            self._data = b""
        self._kept = self._data

    def attach(self, config):
        """Gives it to a configuration; one of another TensorRT or GPU counts as none."""
        if self._data and self._set(config, self._data):
            return
        if self._data:
            self.warnings.append("the timing cache is another TensorRT's or GPU's: begun anew")
            self._data = b""
        self._set(config, b"")

    @staticmethod
    def _set(config, data):
        cache = config.create_timing_cache(data)
        return cache is not None and bool(config.set_timing_cache(cache, ignore_mismatch=False))

    def take(self, config):
        """Keeps what a try has measured, even if no plan came of it."""
        cache = config.get_timing_cache()
        if cache is not None:
            data = bytes(cache.serialize())
            if 0 < len(data) <= _MAX_BYTES:
                self._data = data

    def save(self):
        """Writes it, whole or not at all; a full disk costs the next build time, nothing else."""
        if not self._path or self._data == self._kept:
            return
        try:
            write_file(self._temporary, self._data)
            os.replace(self._temporary, self._path)
        except OSError as error:
            self.warnings.append("the timing cache cannot be written: %s" % error)
            if os.path.exists(self._temporary):
                os.unlink(self._temporary)
