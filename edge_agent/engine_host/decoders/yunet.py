"""YuNet: faces on grids of stride 8, 16 and 32; score is the geometric mean of class and objectness."""

import numpy

from edge_agent.engine_host.decoders.decoder import DecodeError, floats, objects

_STRIDES = (8, 16, 32)


class YuNet:
    """Reads cls_S, obj_S and bbox_S for each stride S; landmarks (kps_S) are not used."""

    def __init__(self, options, outputs):
        self._options = options
        if not options.labels:
            options.labels = ["face"]
        names = {spec.name for spec in outputs}
        missing = [
            name
            for stride in _STRIDES
            for name in ("cls_%d" % stride, "obj_%d" % stride, "bbox_%d" % stride)
            if name not in names
        ]
        if missing:
            raise DecodeError(
                "kind 'yunet' reads outputs cls_S, obj_S and bbox_S for S 8, 16, 32; missing: %s" % ", ".join(missing)
            )

    def decode(self, outputs, rows, size):
        """One list of faces a row."""
        return [self._faces(outputs, row, size) for row in range(rows)]

    def _faces(self, outputs, row, size):
        found = [self._at_stride(outputs, row, stride, size) for stride in _STRIDES]
        boxes = numpy.concatenate([boxes for boxes, _ in found])
        scores = numpy.concatenate([scores for _, scores in found])
        return objects(boxes, scores, numpy.zeros(len(scores), numpy.int64), self._options, size)

    def _at_stride(self, outputs, row, stride, size):
        """Boxes and scores of the cells that may be over min_score."""
        columns = _cells(size[1], stride)
        face, present = floats(outputs["cls_%d" % stride][row, :, 0]), floats(outputs["obj_%d" % stride][row, :, 0])
        if len(face) != columns * _cells(size[0], stride):
            raise DecodeError("output cls_%d has %d cells for an input of %dx%d" % (stride, len(face), size[1], size[0]))
        with numpy.errstate(invalid="ignore", over="ignore"):
            scores = numpy.sqrt(numpy.clip(face, 0, 1) * numpy.clip(present, 0, 1))
            cells = numpy.flatnonzero(scores >= self._options.min_score)
            shift_x, shift_y, log_width, log_height = floats(outputs["bbox_%d" % stride][row])[cells].T
            x, y = (cells % columns + shift_x) * stride, (cells // columns + shift_y) * stride
            width, height = numpy.exp(log_width) * stride, numpy.exp(log_height) * stride
            corners = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        return numpy.stack(corners, axis=1), scores[cells]


def _cells(pixels, stride):
    return -(-pixels // stride)
