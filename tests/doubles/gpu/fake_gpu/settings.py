"""The device and library that a test asked for."""

import os

try:
    import fake_gpu_settings as _chosen
except ImportError:
    _chosen = None


def _choice(name, default):
    return getattr(_chosen, name, default)


VERSION = _choice("VERSION", "10.3.0")
COMPUTE_CAPABILITY = tuple(_choice("COMPUTE_CAPABILITY", (8, 7)))
INTEGRATED = _choice("INTEGRATED", True)
DRIVER = _choice("DRIVER", True)
DEVICE = _choice("DEVICE", "Orin")
MULTIPROCESSORS = _choice("MULTIPROCESSORS", 8)
MEMORY_BYTES = _choice("MEMORY_BYTES", 8 << 30)
CUDA_VERSION = _choice("CUDA_VERSION", 12060)
DLA_CORES = _choice("DLA_CORES", 0)
FAULTS = _choice("FAULTS", "")  #: path of the JSON file that faults.py reads
STATS = _choice("STATS", "")  #: path of the file that counts.py keeps; empty for none
LIBCUDA = _choice("LIBCUDA", "")  #: path of the built libcuda.c

NAMES = os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))), "contract", "names"
)
