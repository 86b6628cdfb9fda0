from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.app.parts import control_path
from edge_agent.domain.status import PartStatus, State
from tests.doubles.house import config, parts

CAMERA = '[[cameras]]\nname = "%s"\nsource = "clip.mp4"\nmodel = "face"\n'


def order(settings):
    made = parts(settings)
    names = {id(value): name for name, value in vars(made).items()}
    names.update({id(camera): "camera " + name for name, camera in made.cameras.items()})
    return [names[id(part)] for part in made.in_start_order()]


def test_the_store_is_first_the_page_listens_before_models_load_and_who_asks_models_comes_last(tmp_path):
    started = order(config(tmp_path, "[mqtt]\n" + CAMERA % "one" + CAMERA % "two"))
    assert started[0] == "store"
    assert started[-1] == "watchdog"
    assert started.index("api") < started.index("serving") < started.index("mqtt") < started.index("camera one")
    assert started.index("camera one") + 1 == started.index("camera two")


def test_there_is_only_what_the_configuration_asks_for(tmp_path):
    made = parts(config(tmp_path))
    assert (made.mqtt, made.cameras) == (None, {})
    assert not {"mqtt", "device"} & set(order(config(tmp_path, '[device]\nstats = "off"\n')))


def test_building_the_parts_starts_nothing(tmp_path):
    made = parts(config(tmp_path, "[mqtt]\n" + CAMERA % "one"))
    assert list(tmp_path.glob("state/*")) == []
    assert made.arena.status()["segments"] == 0
    assert made.serving.names() == []


async def test_every_part_can_be_stopped_that_was_never_started_and_twice(tmp_path):
    for part in reversed(parts(config(tmp_path, "[mqtt]\n" + CAMERA % "one")).in_start_order()):
        await part.stop()
        await part.stop()


def test_cameras_reserve_no_more_than_a_quarter_of_the_arena_together(tmp_path):
    settings = config(tmp_path, "".join(CAMERA % ("c%d" % n) for n in range(64)))
    made = parts(settings)
    reserved = [made._camera_options(section).reserve_bytes for section in settings.cameras]
    assert 0 < sum(reserved) <= settings.arena.max_bytes // 4


def test_an_agent_without_a_name_is_named_by_its_board(tmp_path):
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    settings = config(tmp_path, base='[agent]\nstate_dir = "state"\n[http]\nport = 0\n[models]\nrepository = "models"\n')
    environ = {"EDGE_AGENT_ROOT": str(tmp_path)}
    assert parts(settings, environ=environ).agent_id == parts(settings, environ=environ).agent_id
    assert len(parts(settings, environ=environ).agent_id) == 12
    assert parts(config(tmp_path)).agent_id == "box"


def test_a_password_of_the_broker_that_cannot_be_read_is_a_fault_of_the_configuration(tmp_path):
    with pytest.raises(errors.ConfigError, match="password"):
        parts(config(tmp_path, '[mqtt]\nusername = "u"\npassword_file = "no-such-file"\n'))


@pytest.mark.parametrize(
    ("values", "hottest"),
    [
        ({}, None),
        ({"temperatures_c": None}, None),
        ({"temperatures_c": {}}, None),
        ({"temperatures_c": {"cpu": 51.5, "tj": 60.0}}, 60.0),
    ],
)
def test_models_that_are_compared_know_how_hot_the_board_is(tmp_path, values, hottest):
    made = parts(config(tmp_path))
    made.device.values = values
    assert made.serving._trials._board.temperature_c() == hottest


async def test_the_service_manager_is_asked_for_more_time_while_models_load(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(20)
        (tmp_path / "state").mkdir()
        (tmp_path / "models/slow/1").mkdir(parents=True)
        (tmp_path / "models/slow/1/model.onnx").write_bytes(b"no model")
        made = parts(config(tmp_path), environ={"NOTIFY_SOCKET": str(tmp_path / "notify")})
        try:
            await made.serving.start()
            assert await asyncio.get_running_loop().run_in_executor(None, manager.recv, 100) == b"EXTEND_TIMEOUT_USEC=60000000"
        finally:
            await made.serving.stop()


class Events:
    """Keeps what the store is told."""

    def __init__(self):
        self.rows = []

    def event(self, kind, subject="", **fields):
        self.rows.append((kind, subject, fields["code"]))


@pytest.mark.parametrize(
    ("state", "code", "row"),
    [
        (State.OK, "", [("camera.up", "dock", "")]),
        (State.FAILED, "camera.unreachable", [("camera.down", "dock", "camera.unreachable")]),
        (State.DEGRADED, "camera.opening", []),
        (State.OFF, "camera.ended", []),
    ],
)
def test_a_camera_that_comes_or_goes_is_an_event(tmp_path, state, code, row):
    made = parts(config(tmp_path, CAMERA % "dock"))
    made.store = Events()
    made._camera_changed("dock", PartStatus(state, "2024-01-01T00:00:00Z", code, {"camera": "dock", "text": "no"}))
    assert made.store.rows == row


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({}, "/state/control.sock"),
        ({"RUNTIME_DIRECTORY": ""}, "/state/control.sock"),
        ({"RUNTIME_DIRECTORY": "/run/edge-agent"}, "/run/edge-agent/control.sock"),
        ({"RUNTIME_DIRECTORY": "/run/one:/run/two"}, "/run/one/control.sock"),
    ],
)
def test_the_control_socket_is_where_systemd_says_else_beside_the_database(environ, path):
    assert control_path(environ, Path("/state")) == Path(path)
