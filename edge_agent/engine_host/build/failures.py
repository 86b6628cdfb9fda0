"""Why a build came to nothing: the codes that the agent knows, and whether another try can help."""

from edge_agent.engine_host.control import Refused

_MEMORY_WORDS = ("out of memory", "outofmemory", "bad_alloc", "cudaerrormemoryallocation", "device memory is insufficient")
_IMPLEMENTATION_WORDS = ("could not find any implementation",)
#: of single kernels that want more workspace than there is, too; alone it means memory
_SKIPPED_WORDS = ("insufficient memory",)


def refused(code, text, permanent=False):
    """A build's failure as the agent's answer. `permanent`: the same try would fail again."""
    return Refused(code, text, permanent=permanent)


def lacks_memory(lines):
    """Whether TensorRT's words mean that memory was short."""
    return _any(lines, _MEMORY_WORDS) or (_any(lines, _SKIPPED_WORDS) and not _any(lines, _IMPLEMENTATION_WORDS))


def lacks_implementation(lines):
    """Whether it found no kernel for a layer: too little workspace, or too few sources of kernels."""
    return _any(lines, _IMPLEMENTATION_WORDS) and not lacks_memory(lines)


def _any(lines, words):
    return any(word in line.lower() for line in lines for word in words)
