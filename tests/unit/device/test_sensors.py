from __future__ import annotations

from pathlib import Path

from edge_agent.device import sensors


def test_zones_are_named_and_a_gated_one_is_left_out(orin_nano: Path) -> None:
    assert sensors.temperatures_c(orin_nano) == {"cpu": 48.5, "gpu": 47.218, "tj": 48.5}


def test_the_constant_zone_of_a_nano_is_left_out(nano: Path) -> None:
    assert sensors.temperatures_c(nano) == {"AO-therm": 41.0, "CPU-therm": 34.5}


def test_two_zones_of_one_name_both_show(nano: Path) -> None:
    (nano / "sys/class/thermal/thermal_zone1/type").write_text("AO-therm\n")
    assert sensors.temperatures_c(nano) == {"AO-therm": 41.0, "AO-therm-1": 34.5}


def test_gpu_load_is_a_share_wherever_the_kernel_keeps_it(orin_nano: Path, nano: Path) -> None:
    assert sensors.gpu_load(orin_nano) == 0.873
    assert sensors.gpu_load(nano) == 0.12


def test_a_devfreq_device_that_is_no_gpu_is_passed_over(orin_nano: Path) -> None:
    emc = orin_nano / "sys/class/devfreq/13d00000.memory-controller/device"
    emc.mkdir(parents=True)
    (emc / "load").write_text("5")
    assert sensors.gpu_load(orin_nano) == 0.873


def test_rails_of_hwmon_are_volts_times_amperes(orin_nano: Path) -> None:
    rails = sensors.power_w(orin_nano)
    assert rails == {"VDD_IN": 6.0, "VDD_CPU_GPU_CV": 1.2}
    assert sensors.power_total_w(rails) == 6.0


def test_rails_of_iio_are_milliwatts(nano: Path) -> None:
    rails = sensors.power_w(nano)
    assert rails == {"POM_5V_IN": 2.416, "POM_5V_GPU": 0.0}
    assert sensors.power_total_w(rails) == 2.416


def test_without_an_input_rail_the_sum_is_the_total() -> None:
    assert sensors.power_total_w({"GPU": 1.5, "CPU": 0.5}) == 2.0
    assert sensors.power_total_w({}) is None


def test_a_fan_has_a_duty_and_a_speed(orin_nano: Path, nano: Path) -> None:
    assert sensors.fan(orin_nano) == {"duty": 0.2, "rpm": 1804}
    assert sensors.fan(nano) == {"duty": 1.0, "rpm": None}


def test_a_machine_without_sensors_is_unknown(bare: Path) -> None:
    assert sensors.temperatures_c(bare) == {}
    assert sensors.gpu_load(bare) is None
    assert sensors.power_w(bare) == {}
    assert sensors.fan(bare) is None
