"""Optimisation profiles."""

from fake_gpu import logger, native
from fake_gpu.values import Dims, dims


class IOptimizationProfile(native.Native):
    """min, opt and max of each dynamic input."""

    extra_memory_target = native.Attribute(1.0, float)

    def __init__(self):
        self._shapes = {}
        self._values = {}

    def set_shape(self, input, min, opt, max):
        self._shapes[input] = [dims("set_shape", shape) for shape in (min, opt, max)]

    def get_shape(self, input):
        return list(self._shapes.get(input, []))

    def set_shape_input(self, input, min, opt, max):
        self._values[input] = [list(map(int, shape)) for shape in (min, opt, max)]

    def get_shape_input(self, input):
        return [list(shape) for shape in self._values.get(input, [])]

    def __bool__(self):
        return self._valid()

    def _valid(self):
        """Whether no minimum is above its maximum, and all have the same number of dimensions."""
        for name, (low, middle, high) in self._shapes.items():
            if not len(low) == len(middle) == len(high) or any(not 0 <= a <= b <= c for a, b, c in zip(low, middle, high)):
                logger.error(
                    "Error Code 3: API Usage Error (Dimensions of input '%s' in an optimization profile are inconsistent: "
                    "min %s, opt %s, max %s)" % (name, low, middle, high)
                )
                return False
        return True

    def _copied(self):
        return {name: [Dims(shape) for shape in shapes] for name, shapes in self._shapes.items()}
