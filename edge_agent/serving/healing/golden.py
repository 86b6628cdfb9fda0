"""Golden inputs with the outputs that a model should give: read from `[accept] golden`, and whether they can be a model's."""

from __future__ import annotations

import errno
import os
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Protocol, Sequence, Tuple

import numpy as np

from edge_agent import errors
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.engines.plans.regular_file import open_regular
from edge_agent.serving.healing.samples import Sample

GOLDEN_UNREADABLE = "engine.golden_unreadable"
_MAX_PAIRS = 64
_MAX_BYTES = 256 << 20  #: of one file's arrays
_INPUTS, _OUTPUTS = "inputs.npz", "outputs.npz"
#: what zipfile and numpy say of files that are not whole, or not theirs, besides OSError
_UNFIT = (
    ValueError,
    KeyError,
    EOFError,
    TypeError,
    SyntaxError,
    RuntimeError,  # encrypted, or packed in a way that is unknown here
    MemoryError,  # a header that claims too much
    OverflowError,
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
)


class Tensors(Protocol):
    """Whatever takes tensors and gives some: a version of a model."""

    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]
    max_batch_size: int


def golden(folder: Path, model_directory: Path) -> List[Sample]:
    """Pairs `inputs.npz` and `outputs.npz`, or `NAME.inputs.npz` and `NAME.outputs.npz`, arrays by the tensors' names.

    EngineLoadError where there is none, one cannot be read, or the folder lies outside the model's.
    """
    return [pair(folder, name) for name in pairs(folder, model_directory)]


def pairs(folder: Path, model_directory: Path) -> List[str]:
    """The names of the files with inputs, sorted. EngineLoadError."""
    try:
        if not lies_within(folder, model_directory):
            raise unreadable("%s lies outside the model's folder" % folder)
        names = sorted(path.name for path in folder.iterdir() if path.name.endswith(_INPUTS))
    except OSError as error:
        raise unreadable("%s cannot be read: %s" % (folder, error.strerror)) from error
    if not names or len(names) > _MAX_PAIRS:
        text = "%s has %d pairs of inputs.npz and outputs.npz; put 1 to %d there"
        raise unreadable(text % (folder, len(names), _MAX_PAIRS))
    return names


def pair(folder: Path, name: str) -> Sample:
    """One of them with the outputs that belong to it. EngineLoadError."""
    beside = name[: -len(_INPUTS)] + _OUTPUTS
    return Sample("golden " + name, _read(folder / name), _read(folder / beside))


def lies_within(folder: Path, directory: Path) -> bool:
    """Whether the folder is one of the directory's, whatever links there are. OSError where they lead in a circle."""
    try:
        return directory.resolve() in folder.resolve().parents
    except RuntimeError as error:  # up to Python 3.12
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from error


def unreadable(text: str) -> errors.EngineLoadError:
    """That golden files cannot be used, and why."""
    return errors.EngineLoadError("[accept] golden: " + text, code=GOLDEN_UNREADABLE)


def _read(path: Path) -> Dict[str, Any]:
    try:
        return _arrays(path)
    except OSError as error:
        raise unreadable("%s cannot be read: %s" % (path, error.strerror or error)) from error
    except _UNFIT as error:
        raise unreadable("%s cannot be used: %s" % (path, error or type(error).__name__)) from error


def _arrays(path: Path) -> Dict[str, Any]:
    with open_regular(path) as raw:
        with zipfile.ZipFile(raw) as archive:
            size = sum(info.file_size for info in archive.infolist())
        if size > _MAX_BYTES:
            raise ValueError("it is over %d bytes" % _MAX_BYTES)
        raw.seek(0)
        with np.load(raw, allow_pickle=False) as file:
            arrays = {key: np.asarray(file[key], order="C") for key in file.files}
    if not arrays:
        raise ValueError("it holds no arrays")
    return arrays


# -- whose they are ---------------------------------------------------------------------------------------------------


def misfit(samples: Sequence[Sample], tensors: Tensors) -> str:
    """Why golden arrays cannot be of something with these tensors; empty where they can."""
    return next((why for why in (_misfit(sample, tensors) for sample in samples) if why), "")


def _misfit(sample: Sample, tensors: Tensors) -> str:
    why = next(_faults(sample, tensors), "")
    return "%s: %s" % (sample.name, why) if why else ""


def _faults(sample: Sample, tensors: Tensors) -> Iterator[str]:
    inputs, expected = {spec.name: spec for spec in tensors.inputs}, sample.expected or {}
    outputs = {spec.name: spec for spec in tensors.outputs}
    for unknown in sorted(set(expected) - set(outputs)):
        yield "there is no output '%s', only %s" % (unknown, ", ".join(sorted(outputs)))
    if set(sample.inputs) != set(inputs):
        wanted, got = (", ".join(sorted(names)) for names in (inputs, sample.inputs))
        yield "the inputs are %s, not %s" % (wanted, got)
        return
    rows = {len(array) if array.shape else 0 for array in sample.inputs.values()}
    if tensors.max_batch_size and (len(rows) != 1 or not 1 <= min(rows) <= tensors.max_batch_size):
        yield "it has %s rows, 1 to %d are taken" % (sorted(rows), tensors.max_batch_size)
        return
    for name, array in sample.inputs.items():
        yield from _unlike("input", inputs[name], array, None)
    for name, array in expected.items():
        yield from _unlike("output", outputs[name], array, min(rows) if tensors.max_batch_size else None)


def _unlike(kind: str, spec: TensorSpec, array: Any, rows: Optional[int]) -> Iterator[str]:
    """`rows`: how many there are of whatever the model batches."""
    shape, want = list(array.shape), list(spec.shape)
    if rows is not None and want and want[0] == -1:
        want[0] = rows
    if len(shape) != len(want) or any(size not in (-1, got) for size, got in zip(want, shape)):
        yield "%s '%s' has the shape %s, not %s" % (kind, spec.name, list(spec.shape) if rows is None else want, shape)
    if array.dtype.kind not in ("SU" if spec.datatype is DataType.BYTES else "biuf"):
        yield "%s '%s' is %s, and the arrays are of type %s" % (kind, spec.name, spec.datatype.value, array.dtype)
