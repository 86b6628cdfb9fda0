"""CLOCK_MONOTONIC, which every process of one boot shares (time.monotonic_ns is younger than Python 3.6)."""

import time


def monotonic_ns():
    """Nanoseconds since some start; comparable with the agent's."""
    return int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)


def since_us(started_ns):
    """Microseconds since then."""
    return (monotonic_ns() - started_ns) // 1000
