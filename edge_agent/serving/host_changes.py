"""What becomes of versions when their engine hosts die, come back, or give a model up."""

from __future__ import annotations

from typing import Callable

from edge_agent import errors
from edge_agent.domain.status import State
from edge_agent.engines.hosted import HostedModel
from edge_agent.serving.catalogue import Catalogue
from edge_agent.serving.journal import Journal
from edge_agent.serving.loading import load_code
from edge_agent.serving.version import ServedVersion, deaths_of


class HostChanges:
    """Sets the states of versions, and tells the journal."""

    def __init__(self, catalogue: Catalogue, journal: Journal) -> None:
        self.on_crash_loop: Callable[[ServedVersion], None] = lambda version: None  #: a version ended its host thrice
        self.on_lost: Callable[[ServedVersion], None] = lambda version: None  #: its host came back and could not load it
        self._catalogue = catalogue
        self._journal = journal

    def of_model(self, hosted: HostedModel) -> None:
        """A host died, came back, or gave a model up."""
        for version in self._catalogue.running():
            if isinstance(version, ServedVersion) and version.hosted is hosted:
                self._refresh(version, hosted)

    def _refresh(self, version: ServedVersion, hosted: HostedModel) -> None:
        if hosted.error is not None:
            code = load_code(hosted.error)  # model.stopped where it was given up
            version.deaths = deaths_of(hosted.error)
            changed = version.become(State.FAILED, code, text=str(hosted.error))
            assert version.batcher is not None
            version.batcher.close(errors.ModelNotReady(str(hosted.error)))
            if changed:
                self._journal.event("model.failed", version.label, code=code, text=str(hosted.error))
                (self.on_crash_loop if version.crashes else self.on_lost)(version)
        elif hosted.ready:
            version.up_again()
        else:
            assert version.host is not None
            version.become(State.FAILED, "model.host_down", host=version.host.options.name)

    def of_host(self, kind: str, name: str, text: str, code: str) -> None:
        """An engine host went down, is up, or takes more memory than it should."""
        self._journal.event(kind, name, code=code, args={"host": name, "reason": text, "text": text}, text=text)
