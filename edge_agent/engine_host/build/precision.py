"""Which numbers a plan calculates with: what the board can do, what the model says itself, the flags for the rest."""

import os

from edge_agent.engine_host.build.failures import refused

_MAX_CALIBRATION_BYTES = 64 << 20
_AUTOCAST = (
    'convert the model itself (python -m modelopt.onnx.autocast --onnx_path IN --output_path OUT), or set precision = "fp32"'
)


def is_strongly_typed(tools, wish):
    """Whether the network takes its types from the model alone: always from 11 on, before it on wish, where it can."""
    if not tools.has("weak_types"):
        return True
    if wish and not tools.has("strong_types"):
        text = 'TensorRT %s knows no strongly typed networks (10 does); set strongly_typed = "auto" in [build]'
        raise _refused(text % tools.version)
    return bool(wish)


class Precision:
    """What an order wants of one network. Refused (build.precision_unsupported) where it is not to be had."""

    def __init__(self, tools, order, strongly_typed):
        self._tools = tools
        self._order = order
        self._strongly_typed = strongly_typed
        self._calibration = b""
        self.calibrator = None
        self.warnings = []

    def check_board(self, builder):
        """Before anything is read: what this GPU lacks, no model can have."""
        wanted, on_dla = self._order.precision, self._order.dla_core >= 0
        if wanted == "int8" and not self._fast(builder, "int8"):
            raise _refused('%s does not calculate with eight bits; set precision = "fp16" in [build]' % self._tools.board)
        if wanted == "fp16" and not self._fast(builder, "fp16"):
            raise _refused('FP16 is slow on %s; set precision = "fp32" in [build]' % self._tools.board)
        if on_dla and wanted == "fp32":
            raise _refused("a DLA core calculates in FP16 or INT8 only; set precision in [build], or dla_core = -1")
        if on_dla and self._order.dla_core >= int(builder.num_DLA_cores):
            text = "%s has %d DLA cores, [build] asks for number %d; set dla_core = -1"
            text %= (self._tools.board, max(0, int(builder.num_DLA_cores)), self._order.dla_core)
            raise refused("build.failed", text, permanent=True)

    def _fast(self, builder, name):
        if not self._tools.has("fast_types"):
            return bool(self._tools.facts[name])
        return bool(builder.platform_has_fast_int8 if name == "int8" else builder.platform_has_fast_fp16)

    def check_network(self, network):
        """What the model must bring along."""
        wanted, quantized = self._order.precision, network.quantized
        if self._strongly_typed:
            self._check_types(network, quantized)
        elif quantized and wanted != "int8":
            raise _refused('the model is quantized (it has Q/DQ nodes); set precision = "int8" in [build]')
        elif wanted == "int8" and not quantized:
            self._read_calibration()
        if quantized and self._order.calibration:
            self.warnings.append("the calibration cache is not used: the model has Q/DQ nodes of its own")

    def _check_types(self, network, quantized):
        """A strongly typed network takes no flags: the model must be of the wanted precision itself."""
        wanted = self._order.precision
        if wanted == "int8" and not quantized:
            text = (
                "a strongly typed network takes INT8 from the model alone, and it has no Q/DQ nodes; quantize the model itself"
            )
            if self._tools.has("weak_types"):
                text += ', or set strongly_typed = "auto" in [build]'
            raise _refused(text)
        if wanted == "fp16" and not network.half:
            text = "a strongly typed network takes FP16 from the model alone, and it has none; %s"
            raise _refused(text % _AUTOCAST)

    def _read_calibration(self):
        path = self._order.calibration
        if not path:
            text = "INT8 needs either Q/DQ nodes in the model or a calibration cache (calibration in [build]); there is neither"
            raise _refused(text)
        try:
            with open(path, "rb") as file:
                self._calibration = file.read(_MAX_CALIBRATION_BYTES + 1)
        except OSError as error:
            raise _refused("the calibration cache cannot be read: %s" % error) from error
        if not self._calibration.strip() or len(self._calibration) > _MAX_CALIBRATION_BYTES:
            text = "%s is no calibration cache: it has %d bytes"
            raise _refused(text % (os.path.basename(path), len(self._calibration)))

    def apply(self, builder, config):
        """Sets the flags; a strongly typed network takes none."""
        trt, wanted = self._tools.trt, self._order.precision
        if self._order.dla_core >= 0:
            config.default_device_type = trt.DeviceType.DLA
            config.DLA_core = self._order.dla_core
            config.set_flag(trt.BuilderFlag.GPU_FALLBACK)
        if self._strongly_typed or wanted == "fp32":
            return
        if wanted == "fp16" or self._fast(builder, "fp16"):  # layers that have no INT8 kernel are not to fall to FP32
            config.set_flag(trt.BuilderFlag.FP16)
        if wanted == "int8":
            config.set_flag(trt.BuilderFlag.INT8)
            if self._calibration:
                self.calibrator = calibrator(trt, self._calibration)
                config.int8_calibrator = self.calibrator

    def misfit(self):
        """Whether TensorRT wanted to calibrate by itself: the cache does not fit the model, or this TensorRT."""
        return self.calibrator is not None and self.calibrator.asked


def calibrator(trt, cache):
    """Gives TensorRT a cache and nothing else: there are no pictures on the device to calibrate with."""

    class Calibrator(trt.IInt8EntropyCalibrator2):
        """`asked` tells that the cache was not enough."""

        def __init__(self):
            trt.IInt8EntropyCalibrator2.__init__(self)
            self.asked = False

        def get_batch_size(self):
            return 1

        def get_batch(self, names):
            self.asked = True

        def read_calibration_cache(self):
            return cache

        def write_calibration_cache(self, cache):
            """The file is the operator's."""

    return Calibrator()


def _refused(text):
    return refused("build.precision_unsupported", text, permanent=True)
