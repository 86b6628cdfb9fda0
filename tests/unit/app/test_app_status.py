from __future__ import annotations

import json

import pytest

from edge_agent.app import status
from edge_agent.domain.status import PartStatus, State
from tests.doubles.house import config, parts

OK = PartStatus(State.OK, "2024-01-01T00:00:00.000Z")
CAMERA = '[[cameras]]\nname = "dock"\nsource = "rtsp://host/stream"\nusername = "u"\nmodel = "face"\n'


def document(made, agent=OK, safe_mode=False, access=OK):
    return status.document(made, agent, made.clock.monotonic() - 5.0, safe_mode, access)


def listed(body):
    """Every part of a document with a state."""
    for name, value in body.items():
        for part in value if isinstance(value, list) else [value]:
            yield name, part


def test_the_document_has_every_part_and_each_part_says_its_state(tmp_path):
    body = document(parts(config(tmp_path, CAMERA)))
    assert set(body) == {
        "agent", "models", "repository", "engine_hosts", "cameras", "mqtt", "store", "sync", "http", "images", "bodies",
        "access", "device", "clock", "uplink",
    }  # fmt: skip
    for name, part in listed(body):
        assert part["state"] in ("ok", "degraded", "failed", "off"), name
        assert {"since", "code", "args", "reason", "cure"} <= set(part), name
    assert json.loads(json.dumps(body)) == body


def test_the_agent_says_who_it_is_and_how_it_is(tmp_path):
    agent = document(parts(config(tmp_path)), safe_mode=True)["agent"]
    assert (agent["id"], agent["safe_mode"]) == ("box", True)
    assert agent["uptime_s"] == pytest.approx(5.0, abs=0.5)
    assert agent["rss_bytes"] > 1 << 20
    assert agent["arena"]["bytes_used"] == 0


def test_parts_that_are_not_asked_for_are_off(tmp_path):
    body = document(parts(config(tmp_path)))
    assert [body[name]["state"] for name in ("mqtt", "uplink")] == ["off", "off"]
    assert body["cameras"] == body["sync"] == []


@pytest.mark.parametrize(
    ("states", "overall"),
    [
        ((), "ok"),
        (("ok", "off"), "ok"),
        (("ok", "degraded"), "degraded"),
        (("failed",), "degraded"),
        (("failed", "failed"), "degraded"),
    ],
)
def test_an_agent_whose_parts_fail_goes_on_degraded(states, overall):
    body = {"cameras": [{"state": state} for state in states], "store": {"state": "ok"}}
    assert status._overall(body).value == overall


def test_what_the_agent_itself_says_goes_before_its_parts(tmp_path):
    draining = PartStatus(State.DEGRADED, "2024-01-01T00:00:00.000Z", "agent.draining")
    agent = document(parts(config(tmp_path)), agent=draining)["agent"]
    assert (agent["state"], agent["code"], agent["since"]) == ("degraded", "agent.draining", "2024-01-01T00:00:00.000Z")


def test_no_address_shows_a_password(tmp_path):
    (tmp_path / "secret").write_text("hunter2")
    body = document(parts(config(tmp_path, CAMERA + 'password_file = "secret"\n')))
    assert "hunter2" not in json.dumps(body)
    assert body["cameras"][0]["source"] == "rtsp://host/stream"
