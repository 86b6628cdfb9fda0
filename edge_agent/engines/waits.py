"""Which instances of Python models wait for which models: a call that would wait for itself is found before it waits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Callable, Dict, FrozenSet, List, Set

_Behind = Callable[[], FrozenSet[str]]


@dataclass
class _Member:
    """One instance of a Python model."""

    label: str
    behind: _Behind  #: who waits for the batches that it holds
    calls: List[str] = field(default_factory=list)  #: labels of the models that it waits for


class Waits:
    """All instances of Python models, of all hosts. Other models call nobody, so whoever waits for them is answered."""

    def __init__(self) -> None:
        self._members: Dict[str, _Member] = {}
        self._labels: Dict[str, Set[str]] = {}

    def join(self, instance: str, label: str, behind: _Behind) -> None:
        """An instance of the model `label` takes batches."""
        self._members[instance] = _Member(label, behind)
        self._labels.setdefault(label, set()).add(instance)

    def leave(self, instance: str) -> None:
        """It takes none any more."""
        member = self._members.pop(instance, None)
        if member is None:
            return
        self._labels[member.label].discard(instance)
        if not self._labels[member.label]:
            del self._labels[member.label]

    def begin(self, instance: str, label: str) -> bool:
        """The instance waits for that model from now on; False, and it does not, when it would wait for itself."""
        member = self._members.get(instance)
        if member is None:
            return True  # it is being let go, and will not run the answer
        member.calls.append(label)
        if instance in self._live():
            return True
        member.calls.remove(label)
        return False

    def end(self, instance: str, label: str) -> None:
        """It does not any more."""
        member = self._members.get(instance)
        if member is not None and label in member.calls:
            member.calls.remove(label)

    def _live(self) -> Set[str]:
        """Instances that will be free again: those that wait for nobody, and those that wait for such only."""
        behind = {name: member.behind() for name, member in self._members.items()}
        live = {name for name, member in self._members.items() if not member.calls}
        while True:
            more = {name for name in self._members if name not in live and self._goes_on(name, behind, live)}
            if not more:
                return live
            live |= more

    def _goes_on(self, name: str, behind: Dict[str, FrozenSet[str]], live: Set[str]) -> bool:
        """Whether each model it calls has an instance that will be free, and each instance that holds its calls will."""
        for label in self._members[name].calls:
            instances = self._labels.get(label)
            if instances and not instances & live:
                return False
        return all(holder in live for holder, waiting in behind.items() if name in waiting)
