from __future__ import annotations

import re
from pathlib import Path

import pytest

from edge_agent.cli.main import VERBS
from edge_agent.config.root import AgentConfig

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "configs/demo/README.md"]


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_the_readme_names_every_verb(verb: str) -> None:
    assert re.search(rf"`{verb}\b", (ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8"))
    missing = [target for target in targets if "://" not in target and not (document.parent / target).exists()]
    assert missing == []


def test_every_decision_is_numbered_and_dated() -> None:
    decisions = sorted((ROOT / "docs/decisions").glob("*.md"))
    assert [int(path.name[:4]) for path in decisions] == list(range(1, len(decisions) + 1))
    for path in decisions:
        heading, _, rest = path.read_text(encoding="utf-8").partition("\n")
        assert heading.startswith(f"# {int(path.name[:4])}. ")
        assert re.match(r"\n\d{4}-\d\d-\d\d\. ", rest), path.name


def test_every_room_is_in_the_architecture() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    rooms = [path.parent.name for path in (ROOT / "edge_agent").glob("*/__init__.py")]
    assert [room for room in rooms if f"`{room}/`" not in text] == []


def test_every_section_of_the_configuration_is_in_the_example() -> None:
    text = (ROOT / "configs/edge-agent.toml").read_text(encoding="utf-8")
    assert [key for key in AgentConfig.model_fields if key not in text] == []
