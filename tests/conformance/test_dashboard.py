"""The dashboard asks only for what the agent has."""

from __future__ import annotations

import json
import re
from typing import Any, Iterator, Set

from tests.agent_process import ROOT, AgentProcess

DASHBOARD = ROOT / "configs" / "grafana-dashboard.json"
_METRIC = re.compile(r"\b(?:nv|edge_agent|process)_[a-z_]+\b")
_LABELS = re.compile(r"by \(([a-z, ]+)\)")


def expressions() -> Iterator[str]:
    document: Any = json.loads(DASHBOARD.read_text("utf-8"))
    for panel in document["panels"]:
        for target in panel.get("targets", []):
            yield target["expr"]
    for variable in document["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def test_every_metric_and_label_of_the_dashboard_is_one_of_the_agents(agent: AgentProcess) -> None:
    text = agent.get("/metrics")[1].decode()
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    known = families | {name + end for name in families for end in ("_total", "_bucket", "_sum", "_count")}
    labels = set(re.findall(r'(\w+)="', text)) | {"camera", "kind", "queue", "child", "le"}
    asked: Set[str] = set()
    for expression in expressions():
        asked |= set(_METRIC.findall(expression))
        for group in _LABELS.findall(expression):
            assert set(group.split(", ")) <= labels, expression
    assert len(asked) > 20
    assert asked <= known, asked - known


def test_panels_do_not_lie_on_each_other() -> None:
    taken: Set[Any] = set()
    for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert not taken & cells, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
