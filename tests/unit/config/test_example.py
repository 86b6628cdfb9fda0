"""The files in configs/ and the descriptions of the fields."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator, List, Type

import pytest
from pydantic import BaseModel

from edge_agent.config import toml
from edge_agent.config.cameras import CameraSection
from edge_agent.config.faults import members
from edge_agent.config.hosts import HostSection
from edge_agent.config.load import load_config
from edge_agent.config.model_config import ModelConfig
from edge_agent.config.mqtt import MqttSection
from edge_agent.config.root import AgentConfig

CONFIGS = Path(__file__).parents[3] / "configs"
EXAMPLE = CONFIGS / "edge-agent.toml"


def sections(root: Type[BaseModel]) -> Iterator[Type[BaseModel]]:
    yield root
    for field in root.model_fields.values():
        for kind in members(field.annotation):
            for inner in [kind, *getattr(kind, "__args__", ())]:
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    yield from sections(inner)


def whole_example() -> str:
    return re.sub(r"^#(?=[\[a-z])", "", EXAMPLE.read_text(), flags=re.MULTILINE)


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.toml")), ids=lambda file: file.name)
def test_every_file_in_configs_loads(file: Path) -> None:
    assert load_config(file, {}).notes == ()


def test_the_example_says_the_defaults(tmp_path: Path) -> None:
    empty = tmp_path / "a.toml"
    empty.write_text("config_version = 1\n")
    assert load_config(EXAMPLE, {}).model_dump() == load_config(empty, {}).model_dump()


def test_the_example_loads_with_every_section_switched_on(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text(whole_example())
    config = load_config(file, {})
    assert config.cameras[0].model_dump(exclude={"source", "name", "model"}) == CameraSection(
        name="x", source="y", model="z"
    ).model_dump(exclude={"source", "name", "model"})
    assert config.mqtt == MqttSection()
    assert config.hosts == {"cpu": HostSection()}


def test_the_example_names_every_key() -> None:
    tables = toml.parse(whole_example())
    missing: List[str] = []

    def compare(section: Type[BaseModel], table: Any, path: str) -> None:
        for key, field in section.model_fields.items():
            if key not in table:
                missing.append(path + key)
                continue
            for kind in members(field.annotation):
                for inner in [kind, *getattr(kind, "__args__", ())]:
                    if isinstance(inner, type) and issubclass(inner, BaseModel):
                        value = table[key]
                        inside = value[0] if isinstance(value, list) else value.get("cpu", value)
                        compare(inner, inside, path + key + ".")

    compare(AgentConfig, tables, "")
    assert missing == []


@pytest.mark.parametrize("root", [AgentConfig, ModelConfig])
def test_every_field_has_a_description_of_one_line(root: Type[BaseModel]) -> None:
    found = list(sections(root))
    assert len(found) > 5
    for section in found:
        assert section.model_config["extra"] == "forbid", section
        assert section.model_config["frozen"], section
        for key, field in section.model_fields.items():
            assert field.description, "%s.%s has no description" % (section.__name__, key)
            assert "\n" not in field.description
