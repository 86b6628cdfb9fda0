"""PyCUDA's flags and attributes."""


class ctx_flags:
    """How threads wait."""

    SCHED_AUTO, SCHED_SPIN, SCHED_YIELD, SCHED_BLOCKING_SYNC, SCHED_MASK = 0, 1, 2, 4, 7
    MAP_HOST, LMEM_RESIZE_TO_MAX, FLAGS_MASK = 8, 16, 31


class event_flags:
    """How events wait."""

    DEFAULT, BLOCKING_SYNC, DISABLE_TIMING, INTERPROCESS = 0, 1, 2, 4


class host_alloc_flags:
    """What page-locked memory is for."""

    PORTABLE, DEVICEMAP, WRITECOMBINED = 1, 2, 4


class mem_host_register_flags:
    """The same for memory that is there."""

    PORTABLE, DEVICEMAP = 1, 2


class mem_attach_flags:
    """Who may touch managed memory."""

    GLOBAL, HOST, SINGLE = 1, 2, 4


class device_attribute:
    """Numbers of attributes."""

    MULTIPROCESSOR_COUNT = 16
    INTEGRATED = 18
    CAN_MAP_HOST_MEMORY = 19
    UNIFIED_ADDRESSING = 41
    COMPUTE_CAPABILITY_MAJOR = 75
    COMPUTE_CAPABILITY_MINOR = 76
