from __future__ import annotations

from typing import Any, Dict

import pytest

from edge_agent.config import environment
from edge_agent.config.load import load_config


def test_a_variable_is_laid_over_the_file(write: Any, camera: Any) -> None:
    config = load_config(
        write("[http]\nport = 1\n[hosts.my-gpu]\nthreads = 1\n" + camera()),
        {
            "EDGE_AGENT__HTTP__PORT": "2",
            "EDGE_AGENT__AGENT__TITLE": "Dock 5",
            "EDGE_AGENT__HOSTS__MY_GPU__THREADS": "3",
            "EDGE_AGENT__CAMERAS__DOCK__MAX_FPS": "4.5",
            "EDGE_AGENT__CAMERAS__0__LOOP": "false",
            "EDGE_AGENT__MQTT__HOST": "broker.local",
            "EDGE_AGENT__HTTP__ALLOW_ANONYMOUS": '["infer"]',
            "EDGE_AGENT__STORE__PATH": "",
            "EDGE_AGENT_ROOT": "/x",
            "HOME": "/root",
        },
    )
    assert config.http.port == 2
    assert config.http.allow_anonymous == ("infer",)
    assert config.agent.title == "Dock 5"
    assert config.hosts["my-gpu"].threads == 3
    assert (config.cameras[0].max_fps, config.cameras[0].loop) == (4.5, False)
    assert config.mqtt is not None
    assert config.mqtt.host == "broker.local"
    assert config.store.path == "edge-agent.db"


def test_text_that_reads_as_a_number_is_text_where_text_is_wanted(write: Any) -> None:
    config = load_config(
        write("config_version = 1"),
        {
            "EDGE_AGENT__AGENT__ID": "123456789012",
            "EDGE_AGENT__AGENT__TITLE": "true",
            "EDGE_AGENT__MQTT__VERSION": "5",
            "EDGE_AGENT__AGENT__STATE_DIR": "7",
            "EDGE_AGENT__MODELS__REPOSITORY": "8",
        },
    )
    assert (config.agent.id, config.agent.title) == ("123456789012", "true")
    assert config.agent.state_dir.name == "7"
    assert config.models.repository[0].name == "8"
    assert config.mqtt is not None
    assert config.mqtt.version == "5"


def test_a_fault_names_the_variable(faults_of: Any) -> None:
    faults = faults_of("config_version = 1", {"EDGE_AGENT__HTTP__PORT": "abc", "EDGE_AGENT__HTTP__PROT": "1"})
    assert faults["http.port"][0] == 'should be a whole number, not "abc" (set in EDGE_AGENT__HTTP__PORT)'
    assert faults["http.prot"] == ("unknown key (set in EDGE_AGENT__HTTP__PROT)", "did you mean port?")


@pytest.mark.parametrize(
    "variable", ["EDGE_AGENT__", "EDGE_AGENT__HTTP__", "EDGE_AGENT__HTTP__PORT__X", "EDGE_AGENT__CAMERAS__YARD__LOOP"]
)
def test_a_variable_that_names_no_key_is_a_fault(faults_of: Any, camera: Any, variable: str) -> None:
    assert set(faults_of("[http]\nport = 1\n" + camera(), {variable: "1"})) == {variable}


def test_a_line_end_in_a_value_brings_in_no_second_key(write: Any, faults_of: Any) -> None:
    assert set(faults_of("config_version = 1", {"EDGE_AGENT__HTTP__PORT": "1\nother = 2"})) == {"http.port"}


def test_variables_can_make_the_cameras(write: Any) -> None:
    variables = {"EDGE_AGENT__CAMERAS": '[{name = "a", source = "x.mp4", model = "m"}]'}
    assert load_config(write("config_version = 1"), variables).cameras[0].name == "a"


def test_what_was_put_where_is_told() -> None:
    tables: Dict[str, Any] = {"http": {"port": 1}}
    overrides, faults = environment.apply(tables, {"EDGE_AGENT__HTTP__PORT": "0x10", "OTHER": "1"})
    assert faults == []
    assert overrides == [environment.Override("EDGE_AGENT__HTTP__PORT", "0x10", ("http", "port"))]
    assert tables == {"http": {"port": 16}}
    environment.as_text(tables, overrides[0])
    assert tables == {"http": {"port": "0x10"}}
