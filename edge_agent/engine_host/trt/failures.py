"""What goes wrong on a GPU: an error that only a new process mends ends this one; want of memory is an answer."""

import os
import re
import sys

from edge_agent.engine_host.failures import shortened

EXIT_ENGINE_BROKEN = 76  # of a host whose CUDA context is of no use any more
OUT_OF_MEMORY = "engine.out_of_memory"
FOREIGN = "plan.foreign"
CHANGED = "plan.changed"

_MEMORY_WORDS = ("out of memory", "outofmemory", "memory allocation", "std::bad_alloc")
#: errors that the same file brings again wherever this library and GPU are
_PLANS_WORDS = re.compile(
    r"(version|magic) tag|serialization assertion|error code 1: serialization|incompatible device|please rebuild"
    r"|not compatible with this version|platform|(size|header|version) mismatch|wrong size|check ?sum|corrupt|truncated"
)
#: and what may be otherwise next time, even if it is told in the same words: a plugin is installed, a device is free again
_MOMENTS_WORDS = re.compile(r"plugin|\bdla\b|cuda runtime|cuda error|cuda driver|cuda init|cudnn|cublas|cutensor")


def end_process(reason):
    """Ends the host at once with the reason as its last line. CUDA errors stay: each later call would fail as well."""
    sys.stdout.flush()
    sys.stderr.write("the GPU engine is broken: %s\n" % shortened(reason))
    sys.stderr.flush()
    os._exit(EXIT_ENGINE_BROKEN)


def tells_of_memory(lines):
    """Whether the library complained of too little memory."""
    said = "\n".join(lines).lower()
    return any(words in said for words in _MEMORY_WORDS)


def blames_plan(lines):
    """Whether errors of the library say for certain that the plan is no good here; what they do not say is no verdict."""
    said = "\n".join(lines).lower()
    return _PLANS_WORDS.search(said) is not None and _MOMENTS_WORDS.search(said) is None


def megabytes(count):
    """Bytes for people."""
    return "%.1f MB" % (count / 1e6)
