"""SSD in three forms: finished detections, decoded boxes with class scores, raw regressions on the standard anchors.

Class 0 is the background where the output holds a column for each class; labels count it as their first line.
"""

import numpy

from edge_agent.engine_host.decoders.decoder import DecodeError, floats, objects, sigmoid

_LAYERS = 6
_SCALE_MIN, _SCALE_MAX = 0.2, 0.95
_LOWEST_SCALE = 0.1
_RATIOS = (1.0, 2.0, 0.5, 3.0, 1.0 / 3.0)
_FIRST_STRIDE = 16
_CENTRE_SCALE, _SIZE_SCALE = 10.0, 5.0


class Ssd:
    """Chooses the form by the outputs' shapes and names; boxes are shares of the input.

    * boxes [N, K, 4] (y1 x1 y2 x2), classes [N, K], scores [N, K], and mostly a count [N]: TensorFlow's and TFLite's
      post-processing, already suppressed;
    * boxes [N, A, 4] (x1 y1 x2 y2) and scores [N, A, C]: decoded in the model;
    * the same shapes with A the number of standard anchors: raw (dy dx dh dw) and logits.
    """

    def __init__(self, options, outputs):
        self._options = options
        self._anchors = {}
        boxes = [spec for spec in outputs if len(spec.shape) == 3 and spec.shape[2] in (4, -1)]
        if len(outputs) == 2 and boxes:
            self._read = self._dense
            self._boxes, self._scores = _dense_names(outputs, boxes)
        elif len(outputs) in (3, 4) and len(boxes) == 1:
            self._read = self._finished
            self._boxes = boxes[0].name
            self._classes, self._scores, self._count = _finished_names([spec for spec in outputs if spec is not boxes[0]])
        else:
            raise DecodeError(
                "kind 'ssd' reads boxes [N, K, 4] with classes and scores [N, K], or with scores [N, K, C]; the model has %s"
                % ", ".join("'%s' %s" % (spec.name, list(spec.shape)) for spec in outputs)
            )

    def decode(self, outputs, rows, size):
        """One list of objects a row."""
        return [self._read(outputs, row, size) for row in range(rows)]

    def _finished(self, outputs, row, size):
        count = outputs[self._boxes].shape[1]
        if self._count is not None:
            count = max(0, min(count, int(outputs[self._count].reshape(-1)[row])))
        boxes = floats(outputs[self._boxes][row, :count])[:, [1, 0, 3, 2]] * _corners(size)
        classes = floats(outputs[self._classes][row, :count])
        classes = numpy.where(numpy.isfinite(classes), classes, -1.0).astype(numpy.int64)
        return objects(boxes, floats(outputs[self._scores][row, :count]), classes, self._options, size, overlapping=True)

    def _dense(self, outputs, row, size):
        boxes, scores = floats(outputs[self._boxes][row]), floats(outputs[self._scores][row])
        if len(boxes) != len(scores) or boxes.shape[1:] != (4,) or scores.ndim != 2 or scores.shape[1] < 2:
            raise DecodeError("boxes of shape %s and scores of shape %s do not belong together" % (boxes.shape, scores.shape))
        anchors = self._standard_anchors(size)
        if len(anchors) == len(boxes) and not _decoded(boxes, scores):
            boxes, scores = _on_anchors(boxes, anchors), sigmoid(scores)
        scores = numpy.where(numpy.isfinite(scores), scores, -1.0)
        classes = scores[:, 1:].argmax(axis=1) + 1
        best = scores[numpy.arange(len(scores)), classes]
        return objects(boxes * _corners(size), best, classes, self._options, size)

    def _standard_anchors(self, size):
        if size not in self._anchors:
            self._anchors = {size: standard_anchors(size)}  # one size is the rule; another replaces it
        return self._anchors[size]


def standard_anchors(size):
    """[A, 4]: cx cy w h as shares of the input, for six layers of stride 16 to 512."""
    step = (_SCALE_MAX - _SCALE_MIN) / (_LAYERS - 1)
    scales = [_SCALE_MIN + step * layer for layer in range(_LAYERS)] + [1.0]
    layers = []
    for layer in range(_LAYERS):
        scale = scales[layer]
        shapes = [(scale * ratio**0.5, scale / ratio**0.5) for ratio in _RATIOS]
        if layer == 0:
            shapes = [(_LOWEST_SCALE, _LOWEST_SCALE)] + shapes[1:3]
        else:
            between = (scale * scales[layer + 1]) ** 0.5
            shapes.append((between, between))
        layers.append(_grid(size, _FIRST_STRIDE << layer, shapes))
    return numpy.concatenate(layers)


def _grid(size, stride, shapes):
    rows, columns = -(-size[0] // stride), -(-size[1] // stride)
    y, x = numpy.mgrid[0:rows, 0:columns]
    centres = numpy.stack([(x.ravel() + 0.5) / columns, (y.ravel() + 0.5) / rows], axis=1)
    centres = numpy.repeat(centres, len(shapes), axis=0)
    return numpy.concatenate([centres, numpy.tile(shapes, (rows * columns, 1))], axis=1).astype(numpy.float32)


def _on_anchors(raw, anchors):
    """x1 y1 x2 y2 from dy dx dh dw."""
    with numpy.errstate(over="ignore", invalid="ignore"):
        centres = raw[:, [1, 0]] / _CENTRE_SCALE * anchors[:, 2:] + anchors[:, :2]
        half = numpy.exp(raw[:, [3, 2]] / _SIZE_SCALE) * anchors[:, 2:] / 2
        return numpy.concatenate([centres - half, centres + half], axis=1)


def _decoded(boxes, scores):
    """Whether these are corners with probabilities: raw regressions of some thousand anchors never look so."""
    with numpy.errstate(invalid="ignore"):
        ordered = (boxes[:, 2:] >= boxes[:, :2]).all()
        return bool(ordered and (scores >= 0).all() and (scores <= 1).all())


def _corners(size):
    return numpy.array([size[1], size[0], size[1], size[0]], numpy.float32)


def _dense_names(outputs, boxes):
    """(boxes, scores); with four classes both have shape [N, A, 4], so names are asked first."""
    named = [spec for spec in boxes if any(word in spec.name.lower() for word in ("box", "loc"))]
    chosen = (named or boxes)[0]
    (other,) = [spec for spec in outputs if spec is not chosen]
    return chosen.name, other.name


def _finished_names(others):
    """(classes, scores, count or None) by name, else in TFLite's order."""
    flat = [spec for spec in others if len(spec.shape) == 2 and "num" not in spec.name.lower()]
    left = [spec for spec in others if spec not in flat]
    if len(flat) == 3:  # a count of shape [N, 1]
        left = [spec for spec in flat if spec.shape[1] == 1][-1:] or flat[-1:]
        flat = [spec for spec in flat if spec is not left[0]]
    if len(flat) != 2:
        raise DecodeError("kind 'ssd' finds no classes and scores of shape [N, K]")
    scores = [spec for spec in flat if "score" in spec.name.lower()]
    scores = scores[0] if len(scores) == 1 else flat[1]
    (classes,) = [spec for spec in flat if spec is not scores]
    return classes.name, scores.name, left[0].name if left else None
