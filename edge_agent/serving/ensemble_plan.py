"""The plan of an ensemble: which steps run for which outputs, and what goes from one to the other. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Set, Tuple, TypeVar

from edge_agent.config.ensemble import EnsembleScheduling, EnsembleStep
from edge_agent.config.model_config import ModelConfig


@dataclass(frozen=True)
class PlanStep:
    """One call of a model."""

    index: int  #: its place in the configuration
    model: str
    version: Optional[str]  #: None is the newest that is served
    takes: Mapping[str, str]  #: the model's inputs to the ensemble's tensors
    makes: Mapping[str, str]  #: the model's outputs to the ensemble's tensors


class EnsemblePlan:
    """The steps of one ensemble in an order in which they can run; the configuration has been checked (config/ensemble.py)."""

    def __init__(self, scheduling: EnsembleScheduling, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self.outputs = tuple(outputs)
        self.steps = _in_order([_step(index, step) for index, step in enumerate(scheduling.step)], set(inputs))
        self._all = self._cut_down(self.outputs)

    def needed(self, wanted: Sequence[str]) -> Tuple[PlanStep, ...]:
        """The steps for these outputs only (empty: all), and of each step those outputs that somebody needs."""
        return self._cut_down(wanted) if wanted else self._all

    def _cut_down(self, wanted: Sequence[str]) -> Tuple[PlanStep, ...]:
        steps: List[PlanStep] = []
        tensors = set(wanted)
        for step in reversed(self.steps):
            makes = {output: tensor for output, tensor in step.makes.items() if tensor in tensors}
            if makes:
                steps.append(replace(step, makes=makes))
                tensors.update(step.takes.values())
        return tuple(reversed(steps))


def _step(index: int, step: EnsembleStep) -> PlanStep:
    version = str(step.model_version) if step.model_version > 0 else None
    return PlanStep(index, step.model_name, version, step.input_map, step.output_map)


def _in_order(steps: List[PlanStep], there: Set[str]) -> Tuple[PlanStep, ...]:
    ordered: List[PlanStep] = []
    while steps:
        ready = [step for step in steps if there.issuperset(step.takes.values())]
        if not ready:  # tensors that nobody makes come with the request, or the first step that wants one says so
            ready = steps
        ordered += ready
        there.update(tensor for step in ready for tensor in step.makes.values())
        steps = [step for step in steps if step not in ready]
    return tuple(ordered)


def step_models(config: ModelConfig) -> Tuple[str, ...]:
    """Names of the models that an ensemble calls, each once; nothing for any other model."""
    scheduling = config.ensemble_scheduling
    return () if scheduling is None else tuple(dict.fromkeys(step.model_name for step in scheduling.step))


def cycle_through(name: str, calls: Callable[[str], Iterable[str]]) -> Tuple[str, ...]:
    """The chain by which a model comes to call itself, itself at both ends; empty when it does not."""
    seen: Set[str] = set()
    chains: List[Tuple[str, ...]] = [(name,)]
    while chains:
        chain = chains.pop()
        for called in calls(chain[-1]):
            if called == name:
                return (*chain, name)
            if called not in seen:
                seen.add(called)
                chains.append((*chain, called))
    return ()


def nested_over(name: str, calls: Callable[[str], Iterable[str]], limit: int) -> bool:
    """Whether calls go deeper than `limit` from this model: 1 is an ensemble of plain models. A circle has no end."""
    level = {name}
    for _ in range(limit + 1):
        level = {called for one in level for called in calls(one)}
        if not level:
            return False
    return True


Entry = TypeVar("Entry")


def dependencies_first(entries: Mapping[str, Entry], calls: Callable[[Entry], Iterable[str]]) -> List[Entry]:
    """The entries in an order in which each comes after those it calls, as far as they do not call each other in a circle."""
    ordered: Dict[str, Entry] = {}
    seen: Set[str] = set()

    def visit(name: str) -> None:
        if name in seen or name not in entries:
            return
        seen.add(name)
        for called in calls(entries[name]):
            visit(called)
        ordered[name] = entries[name]

    for name in entries:
        visit(name)
    return list(ordered.values())
