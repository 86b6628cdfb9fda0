"""Classes that callers derive from; the library calls what they override."""

from fake_gpu import native
from fake_gpu.generation import enum


class IInt8Calibrator(native.Native):
    """The base of all calibrators."""

    def get_batch_size(self):
        raise NotImplementedError("get_batch_size is called, and not overridden")

    def get_batch(self, names):
        raise NotImplementedError("get_batch is called, and not overridden")

    def read_calibration_cache(self):
        raise NotImplementedError("read_calibration_cache is called, and not overridden")

    def write_calibration_cache(self, cache):
        raise NotImplementedError("write_calibration_cache is called, and not overridden")

    def get_algorithm(self):
        return getattr(enum("CalibrationAlgoType"), self._ALGORITHM)

    _ALGORITHM = "ENTROPY_CALIBRATION_2"


class IInt8EntropyCalibrator2(IInt8Calibrator):
    """The one to use."""


class IInt8EntropyCalibrator(IInt8Calibrator):
    """Older."""

    _ALGORITHM = "ENTROPY_CALIBRATION"


class IInt8MinMaxCalibrator(IInt8Calibrator):
    """By the largest values."""

    _ALGORITHM = "MINMAX_CALIBRATION"


class IInt8LegacyCalibrator(IInt8Calibrator):
    """By quantiles."""

    _ALGORITHM = "LEGACY_CALIBRATION"


class IOutputAllocator(native.Native):
    """Overridden: reallocate_output (from 10 on also reallocate_output_async), notify_shape."""

    def reallocate_output(self, tensor_name, memory, size, alignment):
        raise NotImplementedError("reallocate_output is called, and not overridden")

    def notify_shape(self, tensor_name, shape):
        raise NotImplementedError("notify_shape is called, and not overridden")


class IProgressMonitor(native.Native):
    """Overridden: all three."""

    def phase_start(self, phase_name, parent_phase, num_steps):
        raise NotImplementedError("phase_start is called, and not overridden")

    def step_complete(self, phase_name, step):
        raise NotImplementedError("step_complete is called, and not overridden")

    def phase_finish(self, phase_name):
        raise NotImplementedError("phase_finish is called, and not overridden")
