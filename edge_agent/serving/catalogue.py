"""What is served under which name: models, their versions, and which of them answers now."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Protocol, Tuple

from edge_agent import errors
from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.ensemble_plan import step_models
from edge_agent.serving.servable import Servable
from edge_agent.serving.statistics import VersionStatistics


class Candidate(Protocol):
    """A version that answers nobody: it is compared with the one that does."""

    @property
    def served(self) -> Servable:
        """The version."""

    @property
    def part(self) -> PartStatus:
        """Its state."""

    def as_json(self) -> Dict[str, Any]:
        """An entry of `versions` in `/api/status`."""


class Model:
    """One model: its versions by number, or the fault that keeps it from having any."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: Dict[str, Servable] = {}
        self.candidate: Optional[Candidate] = None
        self.apart: Dict[str, PartStatus] = {}  #: versions that lie on disk and are not loaded, and why
        self.counted: Dict[str, VersionStatistics] = {}  #: by version: they go on when it is loaded anew
        self.fault: Optional[PartStatus] = None  #: of the model as a whole: its config, its folder
        self.doubt: Optional[PartStatus] = None  #: it serves, and nobody has judged what does
        self.unloaded = False  #: taken down on purpose

    def statistics_of(self, version: str) -> VersionStatistics:
        """What all versions of this number have done together."""
        return self.counted.setdefault(version, VersionStatistics())

    def newest_first(self) -> List[Servable]:
        """Its versions, highest number first."""
        return sorted(self.versions.values(), key=lambda version: int(version.version), reverse=True)

    def ready_version(self) -> Optional[Servable]:
        """The highest version that takes requests."""
        return next((version for version in self.newest_first() if version.ready), None)

    def loaded(self, version: str) -> Optional[Servable]:
        """The version of that number, be it one that answers nobody."""
        if version in self.versions or self.candidate is None:
            return self.versions.get(version)
        return self.candidate.served if self.candidate.served.version == version else None

    def part_of(self, version: str) -> Optional[PartStatus]:
        """The state of a version that is loaded, or should be."""
        if version in self.versions:
            return self.versions[version].part
        candidate = self.candidate
        return candidate.part if candidate is not None and candidate.served.version == version else None

    @property
    def settled(self) -> bool:
        """Whether nothing of it is being loaded."""
        return all(version.settled for version in self.versions.values())

    @property
    def ready(self) -> bool:
        """Whether all of it serves; one that was unloaded on purpose does not count."""
        return self.unloaded or (self.fault is None and all(version.ready for version in self.versions.values()))

    def why_not(self) -> str:
        """Why no version answers, for people."""
        if self.unloaded:
            return "it is unloaded"
        if self.fault is not None:
            return str(self.fault.args.get("text") or self.fault.as_json()["reason"])
        if not self.versions:
            return "it is not loaded"
        shown = self.newest_first()[0]
        return str(shown.part.as_json()["reason"]) or "its engine host is starting again"

    def as_json(self) -> Dict[str, Any]:
        """An entry of `models` in `/api/status`."""
        versions = self.newest_first()
        shown = self.ready_version() or (versions[0] if versions else None)
        part = self.fault or (
            shown.part if shown is not None else PartStatus(State.OFF, code="model.unloaded", args={"model": self.name})
        )
        if self.doubt is not None and part.state in (State.OK, State.DEGRADED):
            part = self.doubt  # its versions say what else there is
        return {"name": self.name, **part.as_json(), "versions": [*self._beside(), *(one.as_json() for one in versions)]}

    def _beside(self) -> List[Dict[str, Any]]:
        """Versions that answer nobody, newest first."""
        shown = {number: {"version": number, "engine": "", **part.as_json()} for number, part in self.apart.items()}
        if self.candidate is not None:
            shown[self.candidate.served.version] = self.candidate.as_json()
        return [shown[number] for number in sorted(shown, key=int, reverse=True) if number not in self.versions]

    def index(self) -> List[Dict[str, str]]:
        """Entries of the repository index (kserve.md 1.10); a model that was never loaded has its name only."""
        if self.versions:
            up = {v.version: _index_state(v) for v in self.newest_first()}
            beside = {number: _unavailable(part) for number, part in self.apart.items()}
            if self.candidate is not None:
                beside[self.candidate.served.version] = _unavailable(self.candidate.part)
            both = {**beside, **up}
            return [{"name": self.name, "version": number, **both[number]} for number in sorted(both, key=int)]
        if self.unloaded:
            return [{"name": self.name, "state": "UNAVAILABLE", "reason": "unloaded"}]
        if self.fault is not None:
            return [{"name": self.name, "state": "UNAVAILABLE", "reason": self.why_not()}]
        return [{"name": self.name}]


def _index_state(version: Servable) -> Dict[str, str]:
    if version.ready:
        return {"state": "READY"}
    if not version.settled:
        return {"state": "LOADING"}
    return _unavailable(version.part)


def _unavailable(part: PartStatus) -> Dict[str, str]:
    return {"state": "UNAVAILABLE", "reason": str(part.args.get("text") or part.as_json()["reason"])}


class Catalogue:
    """All models that are known, by name."""

    def __init__(
        self,
        on_forget: Callable[[str, str], None] = lambda name, version: None,
        told: Callable[[str], str] = lambda text: text,
    ) -> None:
        """`on_forget`: a version is not known any more. `told`: a reason as callers may read it."""
        self._models: Dict[str, Model] = {}
        self._on_forget = on_forget
        self._told = told

    def __iter__(self) -> Iterator[Model]:
        return iter([self._models[name] for name in sorted(self._models)])

    def model(self, name: str) -> Model:
        """The model of this name, a new one where there is none."""
        return self._models.setdefault(name, Model(name))

    def get(self, name: str) -> Optional[Model]:
        """The model of this name, if it is known."""
        return self._models.get(name)

    def forget(self, name: str) -> None:
        """The model is not in any repository any more."""
        model = self._models.pop(name, None)
        for version in model.counted if model is not None else ():
            self._on_forget(name, version)

    def all_versions(self) -> List[Servable]:
        """Every version of every model that answers, or should."""
        return [version for model in self for version in model.versions.values()]

    def running(self) -> List[Servable]:
        """Those, and the ones that answer nobody."""
        return self.all_versions() + [model.candidate.served for model in self if model.candidate is not None]

    def calls(self, name: str) -> Tuple[str, ...]:
        """Names of the models that the ensemble of this name calls; nothing where it is none, or none that is up."""
        model = self._models.get(name)
        versions = [] if model is None else model.newest_first()
        return tuple(dict.fromkeys(called for version in versions for called in step_models(version.config)))

    def known(self, name: str) -> Model:
        """The model; ModelNotFound when there is no such one."""
        model = self._models.get(name)
        if model is None:
            raise errors.ModelNotFound("Request for unknown model: '%s' is not found" % name)
        return model

    def lookup(self, name: str, version: Optional[str] = None) -> Servable:
        """The version that answers now: the one named, or the newest ready one. ModelNotFound, ModelNotReady."""
        model = self.known(name)
        if version is None:
            found = model.ready_version()
        elif version in model.versions:
            found = model.versions[version] if model.versions[version].ready else None
        elif model.part_of(version) is not None:
            found = None
        elif model.versions or model.unloaded:
            raise errors.ModelNotFound("Request for unknown model: '%s' version %s is not found" % (name, version))
        else:
            found = None
        if found is not None:
            return found
        if not model.versions and model.unloaded:
            raise errors.ModelNotFound("Request for unknown model: '%s' has no available versions" % name)
        number = version or (model.newest_first()[0].version if model.versions else "")
        of_version = " version %s" % number if number else ""
        why = self._told(self._why(model, version))
        raise errors.ModelNotReady("Request for model '%s'%s is not at ready state: %s" % (name, of_version, why))

    def index(self) -> List[Dict[str, str]]:
        """The repository index (kserve.md 1.10)."""
        return [{key: self._told(value) for key, value in entry.items()} for model in self for entry in model.index()]

    def pending(self) -> Mapping[Tuple[str, str], int]:
        """Requests that wait, by name and version."""
        return {(version.name, version.version): version.pending for version in self.all_versions()}

    def swapped(self, served: Servable, version: Optional[str]) -> bool:
        """Whether another one answers now to who asked for this `version` and got `served`."""
        try:
            return self.lookup(served.name, version) is not served
        except errors.EdgeAgentError:
            return False

    def statistics(self, name: Optional[str] = None, version: Optional[str] = None) -> List[Dict[str, Any]]:
        """Entries of `model_stats` (kserve.md 1.9). ModelNotFound for a name or version that is not loaded."""
        models = list(self) if name is None else [self.known(name)]
        found = [v for model in models for v in reversed(model.newest_first()) if version in (None, v.version)]
        if name is not None and version is not None and not found:
            raise errors.ModelNotFound("requested model '%s' version %s is not available" % (name, version))
        return [version.statistics.as_json(version.name, version.version) for version in found]

    @staticmethod
    def _why(model: Model, version: Optional[str]) -> str:
        part = None if version is None else model.part_of(version)
        if part is None:
            return model.why_not()
        return str(part.as_json()["reason"]) or "its engine host is starting again"
