"""PyCUDA's exceptions, and what raises them."""

from fake_gpu import driver


class Error(Exception):
    """Whatever CUDA says no to."""


class LogicError(Error):
    """Most codes."""


class MemoryError(Error):  # noqa: A001 - PyCUDA calls it so
    """No memory."""


class RuntimeError(Error):  # noqa: A001
    """The driver does not start."""


class LaunchError(Error):
    """A kernel failed."""


_CLASSES = {2: MemoryError, 3: RuntimeError, 100: RuntimeError, 999: RuntimeError, 719: LaunchError}
_NO_CONTEXT = "explicit_context_dependent failed: invalid device context - no currently active context?"


def check(function, code):
    """Raises what a code other than 0 means."""
    if code:
        raise _CLASSES.get(code, LogicError)("%s failed: %s" % (function, driver.WORDS.get(code, "unknown error")))


def need_context(function="cuCtxGetCurrent"):
    """Raises where this thread has no context, or the context is broken."""
    if not driver.contexts():
        raise LogicError(_NO_CONTEXT)
    check(function, driver.state.sticky)


def need_init(function):
    """Raises before cuInit."""
    if not driver.state.initialised:
        raise LogicError("%s failed: initialization error" % function)
