"""What every decoder shares: its options, the choice of the best boxes, the detections' form."""

import numpy

CANDIDATES = 1000  # boxes that enter the suppression; more only cost time
MAX_OBJECTS = 300


class DecodeError(Exception):
    """The outputs are not what the decoder reads."""


class Options:
    """The `[decode]` section as decoders use it."""

    def __init__(self, config):
        self.labels = list(config.get("labels") or ())
        self.min_score = float(config.get("min_score", 0.25))
        self.iou = float(config.get("iou", 0.45))
        self.max_objects = max(1, min(int(config.get("max_objects", 100)), MAX_OBJECTS))

    def label(self, index):
        """The name of a class, `class_N` where the labels end; index counts the lines from 0."""
        return self.labels[index] if 0 <= index < len(self.labels) else "class_%d" % index


def floats(array):
    """The array in float32: scores of FP16 models and integer classes compute alike."""
    return numpy.asarray(array, numpy.float32)


def sigmoid(values):
    """1 / (1 + exp(-x)) without overflow."""
    return 0.5 * (1.0 + numpy.tanh(0.5 * values))


def objects(boxes, scores, classes, options, size, overlapping=False):
    """Detections of one picture, best first.

    Args:
        boxes: [K, 4], x1 y1 x2 y2 in pixels of the input.
        scores: [K]. What is not finite is dropped.
        classes: [K] integers.
        options: thresholds and labels.
        size: (height, width) of the input; boxes are cut at its edges.
        overlapping: True keeps boxes that overlap (outputs that were suppressed in the model).
    """
    with numpy.errstate(invalid="ignore", over="ignore"):
        good = numpy.isfinite(scores) & (scores >= options.min_score) & numpy.isfinite(boxes).all(axis=1)
        good &= (boxes[:, 2] > boxes[:, 0]) & (boxes[:, 3] > boxes[:, 1])
    chosen = numpy.flatnonzero(good)
    boxes, scores, classes = boxes[chosen], scores[chosen], classes[chosen]
    if overlapping:
        kept = by_score(scores)[: options.max_objects]
    else:
        kept = suppress(boxes, scores, classes, options.iou, options.max_objects)
    height, width = size
    boxes = numpy.clip(boxes[kept], 0, [width, height, width, height])
    found = zip(boxes.tolist(), scores[kept].tolist(), classes[kept].tolist())
    return [
        detection(options.label(int(number)), score, box) for box, score, number in found if box[2] > box[0] and box[3] > box[1]
    ]


def detection(label, score, box):
    """One object as the agent reads it."""
    return {"label": label, "score": round(score, 5), "box": None if box is None else [round(value, 3) for value in box]}


def by_score(scores):
    """Indices, best first, equal ones in their order."""
    return numpy.argsort(-scores, kind="mergesort")  # stable in every numpy


def suppress(boxes, scores, classes, iou, limit):
    """Indices of the boxes that stay when each takes away those of its class that overlap it by more than `iou`."""
    order = by_score(scores)[:CANDIDATES]
    boxes, classes = boxes[order], classes[order]
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    alive = numpy.ones(len(order), numpy.bool_)
    kept = []
    for place in range(len(order)):
        if not alive[place]:
            continue
        kept.append(place)
        if len(kept) == limit:
            break
        rest = slice(place + 1, None)
        shared = _intersection(boxes[place], boxes[rest])
        union = areas[place] + areas[rest] - shared
        alive[rest] &= (shared <= iou * union) | (classes[rest] != classes[place])
    return order[kept]


def _intersection(box, others):
    width = numpy.minimum(box[2], others[:, 2]) - numpy.maximum(box[0], others[:, 0])
    height = numpy.minimum(box[3], others[:, 3]) - numpy.maximum(box[1], others[:, 1])
    return numpy.maximum(width, 0) * numpy.maximum(height, 0)
