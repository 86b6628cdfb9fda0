"""CenterFace: a heat map of face centres at a quarter of the input's size, with size and offset maps."""

import numpy

from edge_agent.engine_host.decoders.decoder import DecodeError, floats, objects

_STRIDE = 4


class CenterFace:
    """Reads the four outputs by their channels: heat map 1, size 2, offset 2 (in this order), landmarks 10."""

    def __init__(self, options, outputs):
        self._options = options
        if not options.labels:
            options.labels = ["face"]
        channels = [spec.shape[1] if len(spec.shape) == 4 else 0 for spec in outputs]
        if sorted(channels) != [1, 2, 2, 10]:
            raise DecodeError("kind 'centerface' reads outputs of 1, 2, 2 and 10 channels, the model's have %s" % channels)
        pairs = [index for index, number in enumerate(channels) if number == 2]
        self._heat = outputs[channels.index(1)].name
        self._scale, self._offset = outputs[pairs[0]].name, outputs[pairs[1]].name

    def decode(self, outputs, rows, size):
        """One list of faces a row."""
        heat, scale, offset = outputs[self._heat], outputs[self._scale], outputs[self._offset]
        return [self._faces(floats(heat[row, 0]), scale[row], offset[row], size) for row in range(rows)]

    def _faces(self, heat, scale, offset, size):
        with numpy.errstate(invalid="ignore", over="ignore"):
            y, x = numpy.nonzero(heat >= self._options.min_score)
            height, width = numpy.exp(floats(scale[:, y, x])) * _STRIDE
            shift_y, shift_x = floats(offset[:, y, x])
            centre_y, centre_x = (y + shift_y + 0.5) * _STRIDE, (x + shift_x + 0.5) * _STRIDE
            corners = [centre_x - width / 2, centre_y - height / 2, centre_x + width / 2, centre_y + height / 2]
        classes = numpy.zeros(len(y), numpy.int64)
        return objects(numpy.stack(corners, axis=1), heat[y, x], classes, self._options, size)
