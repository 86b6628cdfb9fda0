from __future__ import annotations

import pytest

from edge_agent.domain.status import PartStatus, State
from edge_agent.serving.catalogue import Model


class Shown:
    """A version, as far as its model's status asks."""

    version = "2"
    ready = True

    def __init__(self, part: PartStatus) -> None:
        self.part = part

    def as_json(self):
        return {"version": "2", **self.part.as_json()}


@pytest.mark.parametrize(
    ("state", "code", "shown"),
    [
        (State.OK, "", "model.unjudged"),
        (State.DEGRADED, "engine.verify_failed", "model.unjudged"),
        (State.FAILED, "model.load_failed", "model.load_failed"),
    ],
)
def test_an_uncompared_version_is_told_of_whatever_else_is_weak_about_it(state, code, shown):
    model = Model("add")
    model.versions["2"] = Shown(PartStatus(state, "now", code))
    model.doubt = PartStatus(State.DEGRADED, "now", "model.unjudged", {"model": "add", "text": "2 serves uncompared"})
    told = model.as_json()
    assert told["code"] == shown
    assert told["versions"][0]["code"] == code
