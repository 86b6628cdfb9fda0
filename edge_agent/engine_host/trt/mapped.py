"""Libraries that this process has mapped and that a plan depends on beside TensorRT itself: plugins, CUDA's runtime."""

import ctypes
import hashlib
import os
import re

_MAPS = "/proc/self/maps"
_PLUGINS = re.compile(r"libnvinfer_([a-z]+_)*plugin[a-z_]*\.so")
_TENSORRT = re.compile(r"libnvinfer\.so")
_PIECE = 1 << 20
_known = {}  # (path, bytes, time of change): SHA-256


def plugin_digests(maps=_MAPS):
    """SHA-256 (hex) of each library of TensorRT's plugins, sorted; one that cannot be read any more has none."""
    found = set()
    for path in _paths(_PLUGINS, maps):
        try:
            found.add(_digest(path))
        except OSError:
            continue
    return sorted(found)


def cuda_runtime(maps=_MAPS):
    """The version of the CUDA runtime that TensorRT is linked to, as 1000 * major + 10 * minor; 0: it is within TensorRT.

    Asked through TensorRT's own library: others of this process may bring a runtime of their own.
    """
    for path in _paths(_TENSORRT, maps):
        try:
            ask = ctypes.CDLL(path).cudaRuntimeGetVersion
        except (OSError, AttributeError):
            continue
        version = ctypes.c_int(0)
        if ask(ctypes.byref(version)) == 0:
            return version.value
    return 0


def _paths(wanted, maps):
    """Files that are mapped and whose names match."""
    found = set()
    try:
        with open(maps, "rb") as file:
            for line in file:
                words = line.decode("utf-8", "surrogateescape").split(None, 5)
                if len(words) == 6 and wanted.match(os.path.basename(words[5].strip())):
                    found.add(words[5].strip())
    except OSError:
        return []
    return sorted(found)


def _digest(path):
    """Read piece by piece, once for each state of the file."""
    with open(path, "rb") as file:
        stat = os.fstat(file.fileno())
        key = (path, stat.st_size, stat.st_mtime)
        if key not in _known:
            digest = hashlib.sha256()
            for piece in iter(lambda: file.read(_PIECE), b""):
                digest.update(piece)
            _known[key] = digest.hexdigest()
        return _known[key]
