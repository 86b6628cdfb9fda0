"""`ensemble_scheduling` of a model: models behind each other, joined by named tensors."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Set, Tuple

from pydantic import Field, field_validator, model_validator

from edge_agent.config.section import ModelName, Section, Uint32


class EnsembleStep(Section):
    """One model of an ensemble and how its tensors are called there."""

    model_name: ModelName = Field(description="the model")
    model_version: int = Field(-1, ge=-1, le=2**63 - 1, description="its version; -1: the newest that is served")
    input_map: Dict[str, str] = Field(default_factory=dict, description="the model's input to the ensemble's tensor")
    output_map: Dict[str, str] = Field(default_factory=dict, description="the model's output to the ensemble's tensor")
    model_namespace: str = Field("", description="Triton keeps it for itself")

    @field_validator("model_version")
    @classmethod
    def _zero_is_silent(cls, version: int) -> int:
        return version or -1

    @field_validator("model_namespace")
    @classmethod
    def _empty(cls, namespace: str) -> str:
        if namespace:
            raise ValueError("should be empty: there are no namespaces here")
        return namespace


class EnsembleScheduling(Section):
    """The steps; each runs as soon as its inputs are there."""

    step: Tuple[EnsembleStep, ...] = Field(
        min_length=1, max_length=64, description="the models and how their tensors are joined"
    )
    max_inflight_responses: Uint32 = Field(0, description="for decoupled models only")
    max_inflight_requests: Uint32 = Field(0, description="for decoupled models only")

    @model_validator(mode="after")
    def _joined(self) -> Any:
        for step in self.step:
            for key, names in (("input_map", step.input_map), ("output_map", step.output_map)):
                if not names or "" in names or "" in names.values():
                    raise ValueError("step %s: %s should name a tensor on either side" % (step.model_name, key))
        made = [tensor for step in self.step for tensor in step.output_map.values()]
        twice = sorted({tensor for tensor in made if made.count(tensor) > 1})
        if twice:
            raise ValueError("two steps make the tensor %s: each should have a name of its own" % twice[0])
        return self

    def faults(self, inputs: Iterable[str], outputs: Iterable[str]) -> Iterator[str]:
        """What does not fit the ensemble's own inputs and outputs."""
        given = set(inputs)
        made = {tensor for step in self.step for tensor in step.output_map.values()}
        for step in self.step:
            for tensor in step.input_map.values():
                if tensor not in given | made:
                    yield "step %s takes the tensor %s, which is no input and no step makes" % (step.model_name, tensor)
        for tensor in sorted(given & made):
            yield "a step makes the tensor %s, which is an input" % tensor
        for tensor in outputs:
            if tensor not in made:
                yield "no step makes the output %s" % tensor
        stuck = self._stuck(given | {tensor for step in self.step for tensor in step.input_map.values()} - made)
        if stuck:
            yield "steps wait for each other's outputs: " + ", ".join(stuck)

    def _stuck(self, there: Set[str]) -> List[str]:
        """Models of the steps that can never run."""
        waiting, there = list(self.step), set(there)
        while True:
            ready = [step for step in waiting if set(step.input_map.values()) <= there]
            if not ready:
                return [step.model_name for step in waiting]
            there.update(tensor for step in ready for tensor in step.output_map.values())
            waiting = [step for step in waiting if step not in ready]
