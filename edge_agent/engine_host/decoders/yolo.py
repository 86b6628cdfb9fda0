"""YOLO in three forms, told apart by shape: v5 to v7, v8 to v12, end-to-end."""

import numpy

from edge_agent.engine_host.decoders.decoder import DecodeError, floats, objects

_MAX_END_TO_END = 1000  # rows of an end-to-end output; dense ones have more, unless the input is tiny
_STRIDES = (8, 16, 32)


class Yolo:
    """Reads the one detection output, boxes in pixels of the input.

    * [N, A, 5 + C]: cx cy w h, objectness, class scores (v5, v6, v7, X with its grid decoded);
    * [N, 4 + C, A]: cx cy w h, class scores (v8 and later); masks of a segmentation model are left out;
    * [N, K, 6]: x1 y1 x2 y2 score class, suppressed already (v10 and other end-to-end exports).
    """

    def __init__(self, options, outputs):
        self._options = options
        dense = [spec for spec in outputs if len(spec.shape) == 3]
        if not dense:
            raise DecodeError(
                "kind 'yolo' reads an output of three dimensions, the model has %s" % [list(s.shape) for s in outputs]
            )
        self._name = dense[0].name
        prototypes = [spec.shape[1] for spec in outputs if len(spec.shape) == 4 and spec.shape[1] > 0]
        self._masks = prototypes[0] if prototypes else 0

    def decode(self, outputs, rows, size):
        """One list of objects a row."""
        found = outputs[self._name]
        read = self._reader(found.shape, size)
        return [read(floats(found[row]), size) for row in range(rows)]

    def _reader(self, shape, size):
        _, first, second = shape
        if second == 6 and first <= _MAX_END_TO_END and first != _anchors(size, 3):
            return self._end_to_end
        if first > second > 5:
            return self._with_objectness
        if second > first > 4 + self._masks:
            return self._without_objectness
        raise DecodeError("output '%s' of shape %s is no form of YOLO that is known here" % (self._name, list(shape)))

    def _end_to_end(self, found, size):
        classes = _integers(found[:, 5])
        return objects(found[:, :4], found[:, 4], classes, self._options, size, overlapping=True)

    def _with_objectness(self, found, size):
        with numpy.errstate(invalid="ignore"):
            found = found[found[:, 4] >= self._options.min_score]  # class scores are at most 1
        scores = found[:, 5:] * found[:, 4:5]
        return self._best_class(found[:, :4], scores, size)

    def _without_objectness(self, found, size):
        scores = found[4 : len(found) - self._masks]
        with numpy.errstate(invalid="ignore"):
            likely = numpy.flatnonzero(numpy.fmax.reduce(scores, axis=0) >= self._options.min_score)
        return self._best_class(found[:4, likely].T, scores[:, likely].T, size)

    def _best_class(self, centred, scores, size):
        scores = numpy.where(numpy.isfinite(scores), scores, -1.0)
        classes = scores.argmax(axis=1)
        best = scores[numpy.arange(len(scores)), classes]
        half = centred[:, 2:4] / 2
        boxes = numpy.concatenate([centred[:, :2] - half, centred[:, :2] + half], axis=1)
        return objects(boxes, best, classes, self._options, size)


def _anchors(size, each):
    return sum(each * (size[0] // stride) * (size[1] // stride) for stride in _STRIDES)


def _integers(values):
    return numpy.where(numpy.isfinite(values), values, -1.0).astype(numpy.int64)
