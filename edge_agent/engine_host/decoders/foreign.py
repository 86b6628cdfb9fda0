"""A decoder that the model's owner wrote: `python:MODULE:CLASS`, MODULE.py beside config.toml."""

import math
import os
import sys
import traceback
import types

import numpy

from edge_agent.engine_host.decoders.decoder import MAX_OBJECTS, DecodeError


class Foreign:
    """Calls the foreign class and brings its answer into the form that the agent reads."""

    def __init__(self, name, decoder, limit):
        self._name = name
        self._decoder = decoder
        self._limit = limit

    def decode(self, outputs, rows, size):
        """One list of objects a row; DecodeError says what is wrong with the answer."""
        pictures = list(self._decoder.decode(outputs))
        if len(pictures) != rows:
            raise DecodeError("%s answered %d lists for %d pictures" % (self._name, len(pictures), rows))
        return [self._objects(picture) for picture in pictures]

    def _objects(self, picture):
        clean = [self._clean(found) for found in picture]
        return [found for found in clean if math.isfinite(found["score"])][: self._limit]

    def _clean(self, found):
        try:
            box = found.get("box")
            fields = {key: plain(value) for key, value in found.items() if key not in ("label", "score", "box")}
            fields["label"], fields["score"] = str(found["label"]), float(found["score"])
            fields["box"] = None if box is None else [float(value) for value in box]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DecodeError(
                '%s answered %.200r instead of {"label", "score", "box"} (%s)' % (self._name, found, error)
            ) from error
        if fields["box"] is not None and (len(fields["box"]) != 4 or not all(map(math.isfinite, fields["box"]))):
            raise DecodeError("%s answered the box %.200r instead of [x1, y1, x2, y2]" % (self._name, box))
        return fields


def load(kind, config, inputs, outputs, directory):
    """The foreign decoder of `kind`; DecodeError with the file and line when it does not load."""
    module_name, _, class_name = kind[len("python:") :].partition(":")
    if not (module_name.isidentifier() and class_name.isidentifier()):
        raise DecodeError("kind '%s' is not python:MODULE:CLASS" % kind)
    path = os.path.join(directory, module_name + ".py")
    if not os.path.isfile(path):
        raise DecodeError("kind '%s' needs the file %s" % (kind, path))
    told = dict(config, inputs=[spec.as_json() for spec in inputs], outputs=[spec.as_json() for spec in outputs])
    limit = max(1, min(int(config.get("max_objects", 100)), MAX_OBJECTS))
    try:
        decoder = getattr(_module(module_name, path), class_name)(told)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything
        raise DecodeError("%s: %s: %s (line %d)" % (path, type(error).__name__, error, _line(path))) from error
    if not callable(getattr(decoder, "decode", None)):
        raise DecodeError("%s: class %s has no method decode(outputs)" % (path, class_name))
    return Foreign(kind, decoder, limit)


def _module(name, path):
    """A fresh module each time: two models may each have a `decoder.py`, and a reload must see the new text.

    Compiled here, since the import system would write its cache into the model repository.
    """
    module = types.ModuleType("edge_agent_decoder_" + name)
    module.__file__ = path
    with open(path, "rb") as source:
        exec(compile(source.read(), path, "exec"), module.__dict__)
    return module


def _line(path):
    """The innermost line of the file that the current exception passed; 0 when it did not reach it."""
    lines = [line for file, line, _, _ in traceback.extract_tb(sys.exc_info()[2]) if file == path]
    return lines[-1] if lines else 0


def plain(value):
    """A value that JSON takes: numpy's numbers and arrays as Python's."""
    if isinstance(value, numpy.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, numpy.generic) else value
