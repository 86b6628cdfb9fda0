"""Why a build came to nothing: the codes that the agent knows, and whether another try can help."""

from edge_agent.engine_host.control import Refused

_MEMORY_WORDS = (
    "out of memory", "outofmemory", "could not find any implementation", "insufficient memory", "bad_alloc",
    "cudaerrormemoryallocation",
)  # fmt: skip
_IMPLEMENTATION_WORDS = ("could not find any implementation",)


def refused(code, text, permanent=False):
    """A build's failure as the agent's answer. `permanent`: the same try would fail again."""
    return Refused(code, text, permanent=permanent)


def speaks_of_memory(lines):
    """Whether TensorRT's words mean that memory was short: it often says only that it found no way to run a layer."""
    return _any(lines, _MEMORY_WORDS)


def speaks_of_implementation(lines):
    """Whether it found no kernel: too little workspace, or too few sources of kernels."""
    return _any(lines, _IMPLEMENTATION_WORDS)


def _any(lines, words):
    return any(word in line.lower() for line in lines for word in words)
