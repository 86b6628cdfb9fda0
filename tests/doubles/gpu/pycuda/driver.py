"""The part of pycuda.driver that an agent could use; nothing that the real one lacks (tests/cuda holds it against that)."""

from fake_gpu import settings as _settings
from fake_gpu.cuda_device import Context, Device, get_driver_version, get_version, init  # noqa: F401
from fake_gpu.cuda_errors import Error, LaunchError, LogicError, MemoryError, RuntimeError  # noqa: F401
from fake_gpu.cuda_flags import (  # noqa: F401
    ctx_flags,
    device_attribute,
    event_flags,
    host_alloc_flags,
    mem_attach_flags,
    mem_host_register_flags,
)
from fake_gpu.cuda_memory import (  # noqa: F401
    DeviceAllocation,
    PagelockedHostAllocation,
    mem_alloc,
    mem_get_info,
    memcpy_dtod,
    memcpy_dtod_async,
    memcpy_dtoh,
    memcpy_dtoh_async,
    memcpy_htod,
    memcpy_htod_async,
    memset_d8,
    pagelocked_empty,
    pagelocked_empty_like,
    pagelocked_zeros,
    pagelocked_zeros_like,
)
from fake_gpu.cuda_streams import Event, Stream  # noqa: F401

if not _settings.DRIVER:
    raise ImportError("libcuda.so.1: cannot open shared object file: No such file or directory")
