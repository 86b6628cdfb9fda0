from __future__ import annotations

import json
import time
from pathlib import Path

from edge_agent.device.sysfs import DeviceReader


def test_an_orin_nano_tells_all(orin_nano: Path, tmp_path: Path) -> None:
    reader = DeviceReader(orin_nano, state_dir=tmp_path)
    values = reader.read()
    assert values["board"] == "NVIDIA Jetson Orin Nano Developer Kit"
    assert values["l4t"] == "36.4.3"
    assert values["temperatures_c"]["gpu"] == 47.218
    assert values["gpu_load"] == 0.873
    assert values["cpu_load"] == 0.2
    assert values["load_avg"] == [0.5, 0.25, 0.1]
    assert values["memory_total_bytes"] == 7802364 * 1024
    assert values["memory_available_bytes"] == 5000000 * 1024
    assert values["disk_total_bytes"] >= values["disk_free_bytes"] > 0
    assert values["uptime_s"] == 4242.17
    assert values["power_total_w"] == 6.0
    assert values["fan"] == {"duty": 0.2, "rpm": 1804}
    assert reader.serial == "1421123456789"


def test_what_is_unknown_is_null_and_nothing_raises(bare: Path) -> None:
    reader = DeviceReader(bare, state_dir=bare / "not/there")
    values = json.loads(json.dumps(reader.read()))
    assert reader.serial == ""
    assert {name for name, value in values.items() if value not in (None, {})} == set()
    assert values["temperatures_c"] == {}
    assert values["power_w"] == {}


def test_a_value_that_changes_is_read_anew(orin_nano: Path) -> None:
    reader = DeviceReader(orin_nano)
    reader.read()
    (orin_nano / "sys/class/thermal/thermal_zone1/temp").write_text("80000\n")
    (orin_nano / "proc/stat").write_text("cpu  200 0 200 700 100 0 0 0 0 0\n")
    values = reader.read()
    assert values["temperatures_c"]["gpu"] == 80.0
    assert values["cpu_load"] == 1.0


def test_a_sensor_that_vanishes_takes_only_itself_along(orin_nano: Path) -> None:
    reader = DeviceReader(orin_nano)
    (orin_nano / "sys/class/devfreq/17000000.gpu/device/load").unlink()
    values = reader.read()
    assert values["gpu_load"] is None
    assert values["uptime_s"] == 4242.17


def test_the_machine_that_runs_this_can_be_read_in_milliseconds(tmp_path: Path) -> None:
    reader = DeviceReader(Path("/"), state_dir=tmp_path)
    reader.read()
    begun = time.perf_counter()
    for _ in range(20):
        values = reader.read()
    assert (time.perf_counter() - begun) / 20 < 0.05
    assert values["memory_total_bytes"] > 0
