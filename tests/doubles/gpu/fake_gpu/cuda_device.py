"""PyCUDA's device and context."""

from fake_gpu import cuda_calls, driver, settings, streams
from fake_gpu.counts import Counted
from fake_gpu.cuda_errors import _CLASSES, LogicError, RuntimeError, check, need_context, need_init


def init(flags=0):
    """cuInit."""
    code = driver.initialise()
    if code:
        raise _CLASSES.get(code, RuntimeError)("cuInit failed: %s" % driver.WORDS.get(code, "unknown error"))


def get_driver_version():
    """As a number."""
    return settings.CUDA_VERSION


def get_version():
    """As three numbers."""
    return (settings.CUDA_VERSION // 1000, settings.CUDA_VERSION % 1000 // 10, 0)


class Device:
    """The one GPU."""

    def __init__(self, number):
        need_init("cuDeviceGet")
        if number:
            raise LogicError("cuDeviceGet failed: invalid device ordinal")

    @staticmethod
    def count():
        need_init("cuDeviceGetCount")
        return 1

    def name(self):
        return settings.DEVICE

    def compute_capability(self):
        return settings.COMPUTE_CAPABILITY

    def total_memory(self):
        return settings.MEMORY_BYTES

    def get_attribute(self, attr):
        value = cuda_calls.ATTRIBUTES.get(attr)
        if value is None:
            raise LogicError("cuDeviceGetAttribute failed: invalid argument")
        return value()

    def retain_primary_context(self):
        check("cuDevicePrimaryCtxRetain", driver.state.sticky)
        return Context._retained()


class Context(Counted):
    """The primary context; a thread has it from push to pop."""

    @classmethod
    def _retained(cls):
        made = cls()
        made._count()
        return made

    def push(self):
        if not self._counted:
            raise LogicError("cuCtxPushCurrent failed: invalid device context")
        driver.contexts().append(self)

    @staticmethod
    def pop():
        if not driver.contexts():
            raise LogicError("context::pop failed: invalid device context - cannot pop non-current context")
        driver.contexts().pop()

    def detach(self):
        stack = driver.contexts()
        if stack and stack[-1] is self:
            stack.pop()
        self._release()

    @staticmethod
    def synchronize():
        need_context()
        for work in list(streams._streams.values()):
            work.mark().wait()
        check("cuCtxSynchronize", driver.state.sticky)

    @staticmethod
    def get_device():
        need_context()
        return Device(0)
