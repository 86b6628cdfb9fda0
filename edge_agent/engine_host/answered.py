"""The outputs that a Python model gave, held against what its configuration promises."""

import numpy

from edge_agent.engine_host.failures import ModelFailed
from edge_agent.engine_host.tensors import NUMPY_TYPES

_STRING_KINDS = "OSU"  # objects, bytes, text


def checked(spec, given):
    """The output as an array; ModelFailed when it is not what the configuration promises."""
    wanted = NUMPY_TYPES[spec.datatype]
    if wanted is None:
        raise ModelFailed("output '%s': %s needs the package ml_dtypes: install it there" % (spec.name, spec.datatype))
    array = numpy.asarray(given)
    if not isinstance(given, numpy.ndarray) and spec.datatype != "BYTES" and array.dtype.kind not in _STRING_KINDS:
        array = array.astype(wanted)  # Python's own numbers and lists have no type of their own
    fits = array.dtype.kind in _STRING_KINDS if spec.datatype == "BYTES" else array.dtype == wanted
    if not fits:
        text = "output '%s' is %s, the configuration says %s (numpy's %s)"
        raise ModelFailed(text % (spec.name, array.dtype, spec.datatype, wanted))
    if len(array.shape) != len(spec.shape) or any(want not in (-1, dim) for want, dim in zip(spec.shape, array.shape)):
        text = "output '%s' has shape %s, the configuration says %s"
        raise ModelFailed(text % (spec.name, list(array.shape), list(spec.shape)))
    return array


def missing(name, given):
    """What to raise when an output was not given."""
    return ModelFailed("it gave no output '%s', only %s" % (name, ", ".join(sorted(map(str, given))) or "nothing"))
