from __future__ import annotations

from typing import Any

import pytest

from edge_agent.config.later import LATER
from edge_agent.config.load import load_config

CAMERA = "[[cameras]]\nname='dock'\nsource='x.mp4'\nmodel='m'\n"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[http.lan]\nport = 8443", "http.lan"),
        ("[http]\nshared_memory = true", "http.shared_memory"),
        ("[grpc]", "grpc"),
        ("[store]\nretention_days = 7", "store.retention_days"),
        (CAMERA + "keep = 'changes'", "cameras.dock.keep"),
        (CAMERA + "zones = { gate = [[0, 0], [1, 0], [1, 1]] }", "cameras.dock.zones"),
        (CAMERA + "masks = [[[0, 0], [1, 0], [1, 1]]]", "cameras.dock.masks"),
        (CAMERA + "recorder_s = 10", "cameras.dock.recorder_s"),
        (CAMERA + "motion_gate = true", "cameras.dock.motion_gate"),
        (CAMERA + "snapshot = 'all'", "cameras.dock.snapshot"),
        ("[mqtt.home_assistant]\nenabled = true", "mqtt.home_assistant"),
        ("[[mqtt.routes]]\ntopic = 'a'", "mqtt.routes"),
        ("[mqtt]\ncommands = ['load']", "mqtt.commands"),
        ("[[sync.sinks]]\nname = 'hq'", "sync"),
        ("[uplink]\nmonthly_budget_mb = 5", "uplink"),
        ("[updates]\nurl = 'https://x'", "updates"),
        ("[device]\nstats = 'jtop'", "device.stats"),
        ("[device]\nthermal_limit_c = 80", "device.thermal_limit_c"),
    ],
)
def test_what_this_version_cannot_do_is_never_accepted_in_silence(faults_of: Any, text: str, path: str) -> None:
    faults = faults_of(text)
    assert set(faults) == {path}
    assert "not available in this version" in faults[path][0]
    assert faults[path][1]


@pytest.mark.parametrize(
    "text",
    [
        "[http]\nfast_path = false\nshared_memory = false",
        "[http]\nfast_path = true",
        "[mqtt.home_assistant]\nenabled = false\nprefix = 'homeassistant'",
        "[mqtt]\nshare_group = ''\ncommands = []\nroutes = []",
        "[sync]\nsinks = []",
        "[uplink]\nmonthly_budget_mb = 0\nreset_day = 1",
        "[updates]\nurl = ''",
        CAMERA
        + "keep = 'all'\nmotion_gate = false\ntracker = false\nrecorder_s = 0\nzones = {}\nmasks = []\nsnapshot = 'none'",
        "[device]\nstats = 'off'\ngovernor = false",
        "[store]\nretention_days = 0\nmax_bytes = 0",
    ],
)
def test_what_is_switched_off_is_accepted(write: Any, text: str) -> None:
    assert load_config(write(text), {}).notes == ()


def test_the_coming_defaults_are_accepted_with_a_note(write: Any) -> None:
    config = load_config(write("[store]\nretention_days = 30\n" + CAMERA + "tracker = true"), {})
    assert [note.split(":")[0] for note in config.notes] == ["store.retention_days", "cameras.dock.tracker"]


def test_a_truth_value_is_not_a_number(faults_of: Any) -> None:
    assert set(faults_of("[http]\nfast_path = 1")) == {"http.fast_path"}


def test_the_table_holds_no_key_twice() -> None:
    paths = [later.path for later in LATER]
    assert len(set(paths)) == len(paths)
