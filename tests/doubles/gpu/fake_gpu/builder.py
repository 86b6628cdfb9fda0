"""The builder: from a network to the bytes of a plan, in as many steps as a test wants time for."""

import hashlib
import time

from fake_gpu import driver, faults, logger, native, plan, settings
from fake_gpu.generation import enum, has
from fake_gpu.network import INetworkDefinition
from fake_gpu.profile import IOptimizationProfile
from fake_gpu.timing import ITimingCache
from fake_gpu.values import IHostMemory
from fake_gpu.wishes import IBuilderConfig

_STEPS = 10
_SLOW_S = 30.0
_WARM_SHARE = 0.1
_FP16_ALSO = ((5, 3), (6, 0), (6, 2))
_NO_DRIVER = "CUDA initialization failure with error: %d"


class _Failed(Exception):
    """In the words of a log."""


def fast_fp16():
    """Whether the device computes fast in halves."""
    return settings.COMPUTE_CAPABILITY >= (7, 0) or settings.COMPUTE_CAPABILITY in _FP16_ALSO


def fast_int8():
    """Whether it computes in eight bits at all."""
    return settings.COMPUTE_CAPABILITY >= (7, 0) or settings.COMPUTE_CAPABILITY == (6, 1)


class Builder(native.Native):
    """Refuses to be made without a driver, as pybind11 says it."""

    max_batch_size = native.Attribute(1, int)
    max_threads = native.Attribute(1, int)
    logger = native.Attribute()

    def __init__(self, logger):
        self.logger = _take(logger)
        if not driver.usable():
            _error(_NO_DRIVER % driver.NO_DRIVER)
            raise TypeError("pybind11::init(): factory function returned nullptr")

    @property
    def platform_has_fast_fp16(self):
        return fast_fp16()

    @property
    def platform_has_fast_int8(self):
        return fast_int8()

    @property
    def platform_has_tf32(self):
        return settings.COMPUTE_CAPABILITY >= (8, 0)

    @property
    def num_DLA_cores(self):
        return settings.DLA_CORES

    @property
    def max_DLA_batch_size(self):
        return 4096 if settings.DLA_CORES else 1

    def create_network(self, flags=0):
        return INetworkDefinition(int(flags))

    def create_builder_config(self):
        return IBuilderConfig(self)

    def create_optimization_profile(self):
        return IOptimizationProfile()

    def is_network_supported(self, network, config):
        return bool(network._data)

    def reset(self):
        """Forgets nothing, having kept nothing."""

    def build_serialized_network(self, network, config):
        if not isinstance(network, INetworkDefinition) or not isinstance(config, IBuilderConfig):
            raise native.incompatible("build_serialized_network", network, config)
        try:
            fields = _checked(network, config)
            _build(network, config)
        except _Failed as failed:
            _error("IBuilder::buildSerializedNetwork: %s" % failed)
            return None
        return IHostMemory(plan.pack(fields, network._data))


def _take(given):
    return logger.take(given)


def _error(text):
    logger.error(text)


def _checked(network, config):
    """The plan's fields; _Failed for what cannot be built."""
    if not network._data:
        raise _Failed("Error Code 4: API Usage Error (Network must have at least one output)")
    precision = _precision(network, config)
    _check_dla(config, precision)
    return {
        "tensorrt": settings.VERSION,
        "capability": list(settings.COMPUTE_CAPABILITY),
        "precision": precision,
        "quantized": network._quantized,
        "strongly_typed": network._strongly_typed,
        "profiles": _profiles(network, config),
        "values": _values(network, config),
        "shared_profiles": _shares_profiles(config),
        "dla_core": config.DLA_core if _on_dla(config) else -1,
        "workspace": config._workspace(),
        "level": config._level,
    }


def _precision(network, config):
    half, eight = config._is("FP16"), config._is("INT8")
    if network._strongly_typed:
        if half or eight:
            raise _Failed("Error Code 3: API Usage Error (a strongly typed network takes no flag FP16 or INT8)")
        return "typed"
    if network._quantized and not eight:
        raise _Failed("Error Code 4: API Usage Error (a network with quantize layers needs the flag INT8)")
    if half and not fast_fp16():
        logger.warning("Half2 support requested on hardware without native FP16 support.")
    if eight:
        if not fast_int8():
            logger.warning("Int8 support requested on hardware without native Int8 support.")
        if not network._quantized:
            _calibrate(network, config)
        return "int8"
    return "fp16" if half else "fp32"


def _calibrate(network, config):
    """Takes the calibrator's cache, else asks it for batches until it has none."""
    calibrator = config.int8_calibrator
    if calibrator is None:
        raise _Failed("Error Code 4: Internal Error (Calibration failure occurred with no scaling factors detected)")
    cache = calibrator.read_calibration_cache()
    if cache is not None and bytes(cache).startswith(b"TRT-"):
        return
    names = [tensor.name for tensor in network._inputs]
    calibrator.get_batch_size()
    batches = 0
    while calibrator.get_batch(names) is not None:
        batches += 1
    if not batches:
        raise _Failed("Error Code 4: Internal Error (Calibration failure occurred with no scaling factors detected)")
    calibrator.write_calibration_cache(b"TRT-fake-EntropyCalibration2\n")


def _on_dla(config):
    return config.default_device_type == enum("DeviceType").DLA


def _check_dla(config, precision):
    if not _on_dla(config):
        return
    if not 0 <= max(config.DLA_core, 0) < settings.DLA_CORES:
        raise _Failed("Error Code 3: API Usage Error (DLA core %d is not available)" % config.DLA_core)
    if precision == "fp32":
        raise _Failed("Error Code 4: API Usage Error (DLA needs FP16 or INT8)")
    if not config._is("GPU_FALLBACK"):
        raise _Failed("Error Code 4: API Usage Error (a layer cannot run on DLA, and GPU_FALLBACK is not set)")


def _shares_profiles(config):
    if has("IProgressMonitor"):
        return True
    return has("PreviewFeature.PROFILE_SHARING_0806") and config.get_preview_feature(
        enum("PreviewFeature").PROFILE_SHARING_0806
    )


def _profiles(network, config):
    """Each profile with min, opt and max of every input."""
    dynamic = [tensor for tensor in network._inputs if -1 in tensor.shape or tensor.is_shape_tensor]
    if dynamic and not config._profiles:
        raise _Failed(
            "Error Code 4: Internal Error (Network has dynamic or shape inputs, but no optimization profile has been defined)"
        )
    found = []
    for shapes, _ in config._profiles or [({}, {})]:
        found.append({tensor.name: _ranges(tensor, shapes.get(tensor.name)) for tensor in network._inputs})
    return found


def _values(network, config):
    """The same for the values of inputs that are shapes."""
    found = []
    for _, values in config._profiles or [({}, {})]:
        found.append({tensor.name: values.get(tensor.name) for tensor in network._inputs if tensor.is_shape_tensor})
    lacking = [name for values in found for name, ranges in values.items() if ranges is None]
    if lacking:
        text = "Error Code 4: API Usage Error (%s: optimization profile is missing values for shape input)"
        raise _Failed(text % lacking[0])
    return found


def _ranges(tensor, shapes):
    if shapes is None:
        if -1 in tensor.shape:
            text = "Error Code 4: API Usage Error (Dynamic input tensor %s is missing dimensions in profile)"
            raise _Failed(text % tensor.name)
        return [list(tensor.shape)] * 3
    for shape in shapes:
        if len(shape) != len(tensor.shape) or any(a not in (-1, b) for a, b in zip(tensor.shape, shape)):
            text = "Error Code 4: API Usage Error (Dimension mismatch for tensor %s: the profile has %s, the network %s)"
            raise _Failed(text % (tensor.name, tuple(shape), tensor.shape))
    return [list(shape) for shape in shapes]


def _build(network, config):
    """The part that takes time, and that faults are for."""
    fault = faults.get("build")
    if fault == "crash":
        faults.crash()
    elif fault == "hang":
        faults.hang()
    elif fault == "hang_gil":
        faults.hang_with_gil()
    limit = faults.get("no_memory_above")
    seconds = faults.get("build_s", _SLOW_S if fault == "slow" else 0.0)
    _pass_time(config, seconds * (_WARM_SHARE if _measured(network, config) else 1.0))
    if fault == "oom" or (limit is not None and config._workspace() > limit):
        raise _Failed("Error Code 2: OutOfMemory (no further information): Cuda Runtime (out of memory)")
    lean = faults.get("needs_libraries") and not config._uses_libraries()
    if fault == "no_tactic" or lean or config._workspace() < faults.get("no_kernel_below", 0):
        raise _Failed("Error Code 10: Internal Error (Could not find any implementation for node Add_0.)")
    if fault == "none":
        raise _Failed("Error Code 2: Internal Error (Assertion failed)")
    if fault and fault != "slow":
        raise _Failed(str(fault))


def _measured(network, config):
    """Whether the timing cache knows the model; now it does."""
    if config._is("DISABLE_TIMING_CACHE"):
        return False
    if config._cache is None:
        config._cache = ITimingCache()
    digest = hashlib.sha256(network._data).hexdigest()[:16]
    known = digest in config._cache._known
    config._cache._known.add(digest)
    return known


def _pass_time(config, seconds):
    """Steps, told to the progress monitor where this generation has one; a False of it ends the build."""
    monitor = config.progress_monitor if has("IBuilderConfig.progress_monitor") else None
    _tell(monitor, "phase_start", "Building Engine", None, 1)
    _tell(monitor, "phase_start", "Tactic Selection", "Building Engine", _STEPS)
    faults.wait_for_gate("gate")
    for step in range(_STEPS):
        time.sleep(seconds / _STEPS)
        if _tell(monitor, "step_complete", "Tactic Selection", step) is False:
            raise _Failed("Error Code 10: Internal Error (the build was cancelled by its progress monitor)")
    _tell(monitor, "phase_finish", "Tactic Selection")
    _tell(monitor, "step_complete", "Building Engine", 0)
    _tell(monitor, "phase_finish", "Building Engine")


def _tell(monitor, name, *args):
    return None if monitor is None else getattr(monitor, name)(*args)
