"""Whether the kernel's clock follows a time source: adjtimex(2), read only."""

from __future__ import annotations

import ctypes

_TIME_ERROR = 5  #: what adjtimex answers while no time daemon has set the clock right
_LARGER_THAN_ANY_TIMEX = 512


def kernel_clock_synced() -> bool:
    """True when a time daemon (chrony, ntpd, timesyncd, phc2sys) keeps the clock; False when not, or when nobody can say."""
    timex = ctypes.create_string_buffer(_LARGER_THAN_ANY_TIMEX)  # modes = 0: nothing is changed
    try:
        answer = int(ctypes.CDLL(None).adjtimex(timex))
    except (AttributeError, OSError):
        return False
    return 0 <= answer < _TIME_ERROR
