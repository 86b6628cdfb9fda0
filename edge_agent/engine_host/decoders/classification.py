"""Classes of the whole picture: probabilities, logits or quantised probabilities, [N, C] with any ones behind."""

import numpy

from edge_agent.engine_host.decoders.decoder import DecodeError, by_score, detection, floats, sigmoid

_SUM_TOLERANCE = 0.02  # FP16 softmax over a thousand classes


class Classification:
    """The best classes at or over min_score."""

    def __init__(self, options, outputs):
        if len(outputs) != 1:
            raise DecodeError("kind 'classification' reads one output, the model has %d" % len(outputs))
        self._options = options
        self._name = outputs[0].name

    def decode(self, outputs, rows, size):
        """One list of {"label", "score", "box": None} a row."""
        raw = outputs[self._name].reshape(rows, -1)
        return [self._best(_probabilities(raw[row])) for row in range(rows)]

    def _best(self, scores):
        scores = numpy.where(numpy.isfinite(scores), scores, -1.0)
        best = by_score(scores)[: self._options.max_objects]
        return [
            detection(self._options.label(int(index)), float(scores[index]), None)
            for index in best
            if scores[index] >= max(self._options.min_score, 0.0)
        ]


def _probabilities(row):
    if row.dtype == numpy.uint8:
        return floats(row) / 256.0
    values = floats(row)
    finite = values[numpy.isfinite(values)]
    within = not finite.size or (finite.min() >= 0.0 and finite.max() <= 1.0)
    if values.size == 1:
        return values if within else sigmoid(values)
    if within and abs(float(finite.sum()) - 1.0) <= _SUM_TOLERANCE:
        return values
    return _softmax(values, finite)


def _softmax(values, finite):
    if not finite.size:
        return values
    powers = numpy.exp(finite - finite.max())
    scores = numpy.full(values.shape, numpy.nan, numpy.float32)
    scores[numpy.isfinite(values)] = powers / powers.sum()
    return scores
