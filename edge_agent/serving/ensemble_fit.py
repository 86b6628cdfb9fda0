"""Whether the models of an ensemble fit together: names, datatypes, shapes, batches. Pure."""

from __future__ import annotations

from typing import Dict, Iterator, List, Mapping, Sequence, Tuple

from edge_agent.domain.tensors import TensorSpec
from edge_agent.serving.ensemble_plan import PlanStep
from edge_agent.serving.servable import Servable

_Known = Dict[str, Tuple[str, TensorSpec]]  #: by tensor: who says what it is


def shapes_agree(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether a tensor can have both shapes; -1 is any size."""
    return len(one) == len(other) and all(a == b or a < 0 or b < 0 for a, b in zip(one, other))


def misfit(ensemble: Servable, steps: Sequence[Tuple[PlanStep, Servable]]) -> str:
    """The first thing that does not fit, by the step's name; empty when all does."""
    return next(_misfits(ensemble, steps), "")


def _misfits(ensemble: Servable, steps: Sequence[Tuple[PlanStep, Servable]]) -> Iterator[str]:
    known: _Known = {spec.name: ("the ensemble", spec) for spec in ensemble.inputs}
    for step, served in steps:
        if ensemble.max_batch_size > served.max_batch_size:
            text = "step '%s' takes %s, and the ensemble takes batches of up to %d: lower its max_batch_size"
            yield text % (step.model, _batches(served.max_batch_size), ensemble.max_batch_size)
        yield from _unnamed(step, served)
        yield from _mismatches(step.model, step.takes, served.inputs, known)
        yield from _mismatches(step.model, step.makes, served.outputs, known)
    yield from _mismatches("", {spec.name: spec.name for spec in ensemble.outputs}, ensemble.outputs, known)


def _batches(size: int) -> str:
    return "batches of up to %d" % size if size else "no batches"


def _unnamed(step: PlanStep, served: Servable) -> Iterator[str]:
    """Names in the maps that the model does not have, and inputs of the model that get nothing."""
    for kind, joined, specs in (("input", step.takes, served.inputs), ("output", step.makes, served.outputs)):
        names = [spec.name for spec in specs]
        for name in sorted(set(joined) - set(names)):
            yield "step '%s' has no %s '%s': it has %s" % (step.model, kind, name, ", ".join(names))
    optional = {tensor.name for tensor in served.config.input if tensor.optional}
    for name in [spec.name for spec in served.inputs]:
        if name not in step.takes and name not in optional:
            yield "step '%s' gets nothing for its input '%s': name it in input_map" % (step.model, name)


def _mismatches(model: str, joined: Mapping[str, str], specs: Sequence[TensorSpec], known: _Known) -> Iterator[str]:
    """What two sides say differently of one tensor; `known` learns the tensors that are new."""
    who = "step '%s'" % model if model else "the ensemble's output"
    for spec in specs:
        tensor = joined.get(spec.name)
        if tensor is None:
            continue
        other, found = known.setdefault(tensor, (who, spec))
        if spec.datatype is not found.datatype or not shapes_agree(spec.shape, found.shape):
            yield "tensor '%s' is %s for %s and %s for %s" % (tensor, _described(found), other, _described(spec), who)


def _described(spec: TensorSpec) -> str:
    dims: List[str] = [str(dim) for dim in spec.shape]
    return "%s [%s]" % (spec.datatype.value, ",".join(dims))
