"""What goes wrong on a GPU: an error that only a new process mends ends this one; want of memory is an answer."""

import os
import sys

from edge_agent.engine_host.failures import shortened

EXIT_ENGINE_BROKEN = 76  # of a host whose CUDA context is of no use any more
OUT_OF_MEMORY = "engine.out_of_memory"
FOREIGN = "plan.foreign"

_MEMORY_WORDS = ("out of memory", "outofmemory", "memory allocation", "std::bad_alloc")


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


def megabytes(count):
    """Bytes for people."""
    return "%.1f MB" % (count / 1e6)
