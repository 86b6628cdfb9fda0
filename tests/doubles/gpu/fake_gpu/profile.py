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
        shapes = [dims("set_shape", shape) for shape in (min, opt, max)]
        for name, shape in zip(("min", "opt", "max"), shapes):
            if any(dim < 0 for dim in shape):
                raise RuntimeError("Shape provided for %s is inconsistent with other shapes." % name)
        self._shapes[input] = shapes

    def get_shape(self, input):
        return list(self._shapes.get(input, []))

    def set_shape_input(self, input, min, opt, max):
        values = [list(map(int, shape)) for shape in (min, opt, max)]
        for name, value in zip(("opt", "max"), values[1:]):
            if len(value) != len(values[0]):
                raise RuntimeError("%s input provided for shape tensor is inconsistent with other inputs." % name)
        self._values[input] = values

    def get_shape_input(self, input):
        return [list(shape) for shape in self._values.get(input, [])]

    def __bool__(self):
        return self._valid()

    def _valid(self):
        """Whether no minimum is above its maximum, and all have the same number of dimensions."""
        for name, (low, middle, high) in list(self._shapes.items()) + list(self._values.items()):
            if not len(low) == len(middle) == len(high) or any(not a <= b <= c for a, b, c in zip(low, middle, high)):
                text = "Error Code 4: API Usage Error (Invalid optimization profiles for input tensors %s: %s, %s, %s)"
                logger.error("IOptimizationProfile::isValid: " + text % (name, low, middle, high))
                return False
        return True

    def _copied(self):
        """(shapes, values)."""
        shapes = {name: [Dims(shape) for shape in shapes] for name, shapes in self._shapes.items()}
        return shapes, {name: [list(value) for value in values] for name, values in self._values.items()}
