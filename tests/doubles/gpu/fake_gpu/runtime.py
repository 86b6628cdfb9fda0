"""The runtime: plans become engines, or None with the reason in the log."""

from fake_gpu import driver, faults, logger, native, plan, settings
from fake_gpu.engine import ICudaEngine

_OTHER_VERSION = "Version tag does not match. Note: Current Version: %s, Serialized Engine Version: %s"
_OTHER_DEVICE = (
    "Error Code 6: API Usage Error (The engine plan file is generated on an incompatible device, "
    "expecting compute %s got compute %s, please rebuild.)"
)


class Runtime(native.Native):
    """Can be made without a driver, and crashes then when it is used; so does the real one."""

    DLA_core = native.Attribute(-1, int)
    max_threads = native.Attribute(1, int)
    engine_host_code_allowed = native.Attribute(False, bool)
    temporary_directory = native.Attribute("/tmp")
    logger = native.Attribute()

    def __init__(self, logger):
        self.logger = _take(logger)
        if not driver.usable():
            _error("CUDA initialization failure with error: %d" % driver.NO_DRIVER)

    @property
    def num_DLA_cores(self):
        return settings.DLA_CORES

    def deserialize_cuda_engine(self, serialized_engine):
        if not driver.usable():
            faults.crash()
        fault = faults.get("deserialize")
        if fault == "crash":
            faults.crash()
        elif fault == "hang":
            faults.hang()
        elif fault == "hang_gil":
            faults.hang_with_gil()
        try:
            return self._engine(bytes(serialized_engine), fault)
        except plan.Refused as error:
            _error(str(error))
            return None

    def _engine(self, data, fault):
        if driver.state.sticky:
            raise plan.Refused("Error Code 1: Cuda Runtime (%s)" % driver.WORDS[driver.state.sticky])
        if fault == "oom":
            raise plan.Refused("Error Code 2: OutOfMemory (no further information): Cuda Runtime (out of memory)")
        if fault == "none":
            raise plan.Refused("Error Code 1: Serialization (Serialization assertion failed)")
        if fault:
            raise plan.Refused(fault)
        fields, onnx = plan.unpack(data)
        if fields["tensorrt"] != settings.VERSION:
            words = (settings.VERSION, fields["tensorrt"])
            raise plan.Refused("Error Code 1: Serialization (%s)" % (_OTHER_VERSION % words))
        if tuple(fields["capability"]) != settings.COMPUTE_CAPABILITY:
            words = (_dotted(fields["capability"]), _dotted(settings.COMPUTE_CAPABILITY))
            raise plan.Refused(_OTHER_DEVICE % words)
        if fields["dla_core"] >= 0 and settings.DLA_CORES == 0:
            raise plan.Refused("Error Code 6: API Usage Error (The engine needs DLA, and there is none)")
        return ICudaEngine(fields, onnx, data)


def _take(given):
    return logger.take(given)


def _error(text):
    logger.error(text)


def _dotted(numbers):
    return ".".join(str(number) for number in numbers)
