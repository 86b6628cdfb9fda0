"""From a BGR picture to a model's input, written straight into the arena.

The picture is resized while it is still bytes; one table lookup a channel then turns each byte into its final value
in the slot, so that no float copy of the picture is ever made and every value is rounded once.
"""

import cv2
import numpy

PAD = 114  # grey of the borders, as detectors are trained with
CHANNEL_ORDER = {"RGB": (2, 1, 0), "BGR": (0, 1, 2), "GRAY": (0,)}
DTYPES = {"FP32": numpy.float32, "FP16": numpy.float16, "UINT8": numpy.uint8}
RESIZES = ("letterbox", "stretch", "center_crop")
LAYOUTS = ("NCHW", "NHWC")
_SIDE_MAX = 16384
_KEPT_TARGETS = 8


class BadTarget(Exception):
    """A preprocess table that means nothing."""


class Geometry:
    """Which part of the source goes where: input = source * scale + pad, per axis."""

    __slots__ = ("width", "height", "crop", "place", "scale_x", "scale_y", "pad_x", "pad_y")

    def __init__(self, width, height, crop, place, pad_x, pad_y):
        self.width = width
        self.height = height
        self.crop = crop  # x, y, width, height in the source
        self.place = place  # x, y, width, height in the input
        self.scale_x = place[2] / float(crop[2])
        self.scale_y = place[3] / float(crop[3])
        self.pad_x = pad_x
        self.pad_y = pad_y

    def as_json(self):
        """The fields of an answer."""
        return {
            "width": self.width, "height": self.height, "scale_x": self.scale_x, "scale_y": self.scale_y,
            "pad_x": self.pad_x, "pad_y": self.pad_y,
        }  # fmt: skip


def _fit(length, scale, most):
    return min(max(int(round(length * scale)), 1), most)


def plan(resize, width, height, to_width, to_height):
    """Geometry for a source of width x height and an input of to_width x to_height."""
    whole = (0, 0, width, height)
    if resize == "stretch":
        return Geometry(width, height, whole, (0, 0, to_width, to_height), 0.0, 0.0)
    ratios = to_width / float(width), to_height / float(height)
    if resize == "letterbox":
        fit_w, fit_h = _fit(width, min(ratios), to_width), _fit(height, min(ratios), to_height)
        x, y = (to_width - fit_w) // 2, (to_height - fit_h) // 2
        return Geometry(width, height, whole, (x, y, fit_w, fit_h), float(x), float(y))
    cut_w, cut_h = _fit(to_width, 1 / max(ratios), width), _fit(to_height, 1 / max(ratios), height)
    x, y = (width - cut_w) // 2, (height - cut_h) // 2
    pad_x, pad_y = -x * to_width / float(cut_w), -y * to_height / float(cut_h)
    return Geometry(width, height, (x, y, cut_w, cut_h), (0, 0, to_width, to_height), pad_x, pad_y)


class Target:
    """A model's input: made once from domain.frames.Preprocess.as_json(), used for every picture."""

    def __init__(self, options):
        self.width = _side(options, "width")
        self.height = _side(options, "height")
        self.layout = _choice(options, "layout", LAYOUTS)
        self.resize = _choice(options, "resize", RESIZES)
        self.color = _choice(options, "color", tuple(CHANNEL_ORDER))
        self.dtype = DTYPES[_choice(options, "datatype", tuple(DTYPES))]
        self.order = CHANNEL_ORDER[self.color]
        self.nbytes = len(self.order) * self.width * self.height * numpy.dtype(self.dtype).itemsize
        self._tables = [self._table(options, channel) for channel in range(len(self.order))]

    def _table(self, options, channel):
        mean, std = _of_channel(options, "mean", channel), _of_channel(options, "std", channel)
        if not std:
            raise BadTarget("std must not be 0")
        values = (numpy.arange(256, dtype=numpy.float64) * float(options.get("scale", 1.0)) - mean) / std
        if self.dtype is numpy.uint8:
            return numpy.clip(numpy.rint(values), 0, 255).astype(numpy.uint8)
        table = values.astype(self.dtype)
        # a lookup moves values without looking at them, and cv2 knows no half floats: same bits, other name
        return table.view(numpy.uint16) if self.dtype is numpy.float16 else table

    def write(self, picture, memory):
        """Fills `memory` (writable, nbytes long) from a uint8 picture, BGR or grey; answers the Geometry."""
        geometry = plan(self.resize, picture.shape[1], picture.shape[0], self.width, self.height)
        x, y, width, height = geometry.crop
        small = self._resized(picture[y : y + height, x : x + width], geometry.place[2], geometry.place[3])
        planes = self._planes(memory)
        for channel, source in enumerate(self.order):
            self._fill(planes[channel], small, source, geometry.place, self._tables[channel])
        return geometry

    def _resized(self, part, width, height):
        if part.shape[:2] != (height, width):
            part = cv2.resize(part, (width, height), interpolation=cv2.INTER_LINEAR)
        if self.color == "GRAY":
            return part if part.ndim == 2 else cv2.cvtColor(part, cv2.COLOR_BGR2GRAY)
        return cv2.cvtColor(part, cv2.COLOR_GRAY2BGR) if part.ndim == 2 else part

    def _planes(self, memory):
        """One height x width view of the slot for each channel, whatever the layout."""
        flat = numpy.frombuffer(memory, dtype=self._tables[0].dtype)
        channels = len(self.order)
        if self.layout == "NCHW":
            return flat.reshape(channels, self.height, self.width)
        return flat.reshape(self.height, self.width, channels).transpose(2, 0, 1)

    def _fill(self, plane, small, source, place, table):
        x, y, width, height = place
        pad = table[PAD]
        plane[:y] = pad
        plane[y + height :] = pad
        plane[y : y + height, :x] = pad
        plane[y : y + height, x + width :] = pad
        inner = plane[y : y + height, x : x + width]
        channel = small if small.ndim == 2 else cv2.extractChannel(small, source)
        if inner.strides[1] == inner.itemsize:
            written = cv2.LUT(channel, table, inner)
            if written.__array_interface__["data"][0] == inner.__array_interface__["data"][0]:
                return
            inner[...] = written  # cv2 took another array: only seen with degenerate sizes
        else:
            inner[...] = cv2.LUT(channel, table)


def _side(options, name):
    value = options.get(name)
    if not isinstance(value, int) or not 0 < value <= _SIDE_MAX:
        raise BadTarget("%s must be 1 to %d, not %r" % (name, _SIDE_MAX, value))
    return value


def _choice(options, name, choices):
    value = options.get(name, choices[0])
    if value not in choices:
        raise BadTarget("%s must be one of %s, not %r" % (name, ", ".join(choices), value))
    return value


def _of_channel(options, name, channel):
    values = options.get(name) or (1.0 if name == "std" else 0.0,)
    return float(values[channel] if channel < len(values) else values[-1])


class Targets:
    """The targets in use, by their options: a camera's model changes rarely, its frames come all day."""

    def __init__(self):
        self._kept = {}

    def get(self, options):
        """The Target for these options, made at their first use."""
        key = repr(sorted(options.items()))
        target = self._kept.get(key)
        if target is None:
            if len(self._kept) >= _KEPT_TARGETS:
                self._kept.clear()
            target = self._kept[key] = Target(options)
        return target
