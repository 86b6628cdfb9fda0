"""The first runs of a model, at loading: no request pays for them, and what does not work is told in time."""

import numpy

from edge_agent.engine_host.decoders.decoder import DecodeError
from edge_agent.engine_host.failures import LoadError, RunFailed, shortened
from edge_agent.engine_host.tensors import NUMPY_TYPES

_MAX_BYTES = 1 << 30


def warm_up(model, preferred, warnings):
    """Runs zeros once at each end of the batch sizes and at those preferred, and looks at what comes.

    So no request pays for the first run of a size that will come often.
    """
    if _shapes(model, 1) is None:
        return  # sizes come with the first request
    try:
        _try_rows(model, 1)
    except LoadError:
        raise
    except Exception as error:  # noqa: BLE001 - the engine's own classes
        code = error.code if isinstance(error, RunFailed) else ""
        raise LoadError("%s: a run with zeros failed: %s" % (model.path, shortened(error)), code) from error
    for rows in sorted({model.max_batch_size, *preferred, *getattr(model.engine, "rows", ())}, reverse=True):
        if 1 < rows <= model.max_batch_size and _input_bytes(model, rows) <= _MAX_BYTES:
            _try_batch(model, rows, warnings)


def _shapes(model, rows):
    """Shapes of the inputs by name; None where the model leaves a size open that nobody can know."""
    usual = getattr(model.engine, "usual_shapes", None)
    if usual is not None:
        return usual(model.inputs, rows if model.batched else None)
    shapes = {spec.name: (rows,) + spec.shape[1:] if model.batched else spec.shape for spec in model.inputs}
    return None if any(dim < 0 for shape in shapes.values() for dim in shape) else shapes


def _try_batch(model, rows, warnings):
    """A model that cannot run so many rows runs requests one by one."""
    try:
        _try_rows(model, rows)
    except LoadError:
        raise
    except RunFailed as error:  # of a plan, which says which sizes it can do: it is the memory
        text = "%s: a run of %d rows failed: %s; set a smaller max_batch_size"
        raise LoadError(text % (model.path, rows, error), error.code) from error
    except Exception as error:  # noqa: BLE001 - the engine's own classes
        warnings.append(
            "%s: runs 1 row but not %d, so requests run one by one; export it with a batch dimension that is dynamic "
            "throughout, or set max_batch_size = 1 (%s)" % (model.path, rows, shortened(error))
        )
        model.max_batch_size = 1


def _try_rows(model, rows):
    feeds = {}
    shapes = _shapes(model, rows)
    if shapes is None:
        return
    for spec in model.inputs:
        feeds[spec.name] = _zeros(shapes[spec.name], spec.datatype)
    outputs = dict(zip(model.output_names, model.engine.run(model.output_names, feeds)))
    if model.batched:
        wrong = misfit(outputs, rows)
        if wrong:
            raise LoadError("%s: %s; set max_batch_size = 0" % (model.path, wrong))
    if model.decoder is not None:
        _try_decoder(model, outputs, feeds)


def _zeros(shape, datatype):
    return numpy.full(shape, "", object) if datatype == "BYTES" else numpy.zeros(shape, NUMPY_TYPES[datatype])


def _try_decoder(model, outputs, feeds):
    shape = feeds[model.inputs[model.picture].name].shape
    if model.batched:
        outputs = {name: array[:1] for name, array in outputs.items()}
    try:
        model.decode(outputs, shape)
    except DecodeError as error:
        raise LoadError("%s: [decode] %s" % (model.path, error)) from error
    except Exception as error:  # noqa: BLE001 - decoders may be the user's own
        text = "%s: [decode] the decoder failed on zeros: %s: %s"
        raise LoadError(text % (model.path, type(error).__name__, shortened(error))) from error


def _input_bytes(model, rows):
    shapes = _shapes(model, rows) or {}
    return sum(int(numpy.prod(shape)) * 8 for shape in shapes.values())


def misfit(outputs, rows):
    """Why outputs cannot be split by rows; empty when they can."""
    for name, array in outputs.items():
        if not array.shape or array.shape[0] != rows:
            got = "no rows" if not array.shape else "%d rows" % array.shape[0]
            return "output '%s' has %s for %d rows of input, so it cannot be batched" % (name, got, rows)
    return ""
