"""What `edge-agent check` finds in golden files: what cannot be read, and what is not the model's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Iterator, List, Tuple

from edge_agent.cli.check_build import largest_batch
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.engines.plans.onnx_tensors import OnnxTensor, OnnxTensors, onnx_tensors
from edge_agent.errors import EngineLoadError
from edge_agent.serving.healing.golden import misfit, pair, pairs
from edge_agent.serving.healing.recipe import golden_folder
from edge_agent.serving.healing.samples import Sample
from edge_agent.serving.repository import ModelEntry

Fault = Tuple[str, str, str]

_PREFIX = "[accept] golden: "


@dataclass
class _Takes:
    inputs: Tuple[TensorSpec, ...]
    outputs: Tuple[TensorSpec, ...]
    max_batch_size: int


def golden_faults(entry: ModelEntry) -> Iterator[Fault]:
    """Reads them one after another."""
    folder = golden_folder(entry.config, entry.directory)
    if folder is None:
        return
    path = "models.%s.accept.golden" % entry.name
    try:
        names = pairs(folder, entry.directory)
    except EngineLoadError as error:
        yield path, _plain(error), "put inputs.npz and outputs.npz into a folder within the model's, or remove the key"
        return
    models = list(_models(entry))
    for name in names:
        try:
            sample = pair(folder, name)
        except EngineLoadError as error:
            yield path, _plain(error), "write it with numpy.savez, an array for each tensor"
            continue
        for number, tensors in models:
            why = misfit([sample], _takes(entry, tensors, sample))
            if why:
                cure = "write inputs and outputs of this model into it"
                yield path, "%s: %s, which does not fit version %d" % (folder, why, number), cure


def golden_notes(entry: ModelEntry) -> Iterator[str]:
    """What could not be looked at."""
    if golden_folder(entry.config, entry.directory) is None:
        return
    seen = [number for number, _ in _models(entry)]
    for version in entry.versions:
        if version.number not in seen:
            text = (
                "models.%s.accept.golden: whether it fits version %d is not looked at, as that has no ONNX file to read it from"
            )
            yield text % (entry.name, version.number)


def _plain(error: EngineLoadError) -> str:
    text = str(error)
    return text[len(_PREFIX) :] if text.startswith(_PREFIX) else text


def _models(entry: ModelEntry) -> Iterator[Tuple[int, OnnxTensors]]:
    for version in entry.versions:
        if version.truth.suffix == ".onnx":
            try:
                yield version.number, onnx_tensors(version.truth)
            except EngineLoadError:
                continue  # told as a fault of the file


def _takes(entry: ModelEntry, tensors: OnnxTensors, sample: Sample) -> _Takes:
    """What the model leaves open is whatever the sample has."""
    inputs = [_spec(tensor, sample) for tensor in tensors.inputs]
    outputs = [_spec(tensor, sample) for tensor in tensors.outputs]
    sizes: List[List[Tuple[int, ...]]] = [[spec.shape for spec in specs] for specs in (inputs, outputs)]
    return _Takes(tuple(inputs), tuple(outputs), largest_batch(entry.config.max_batch_size, *sizes))


def _spec(tensor: OnnxTensor, sample: Sample) -> TensorSpec:
    array = sample.inputs.get(tensor.name, (sample.expected or {}).get(tensor.name))
    given = () if array is None else array.shape
    datatype = tensor.datatype or (DataType.BYTES if array is not None and array.dtype.kind in "SU" else DataType.FP32)
    return TensorSpec(tensor.name, datatype, tensor.shape if tensor.shape is not None else (-1,) * max(len(given), 1))
