"""Temperatures, GPU load, power and fan out of sysfs; JetPack 4 to 7 put them in different places."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterator, List, Optional, Tuple

from edge_agent.telemetry.procfs import read_int, read_text

#: a gated sensor reads -256; nothing on a board that runs is outside of this
_BELIEVABLE_C = (-40.0, 150.0)
#: constant 100 degC on TX boards and Nano
_FAKE_ZONES = ("PMIC-Die", "PMIC")
#: rails that carry the whole board
_TOTAL_RAILS = ("VDD_IN", "POM_5V_IN")
_GPU_NODES = {"gv11b", "gp10b", "gm20b", "ga10b", "gb10b", "gpu"}


def temperatures_c(root: Path) -> Dict[str, float]:
    """Degrees by thermal zone; a zone that cannot be read or says nonsense is left out."""
    zones: Dict[str, float] = {}
    for zone in _folders(root / "sys/class/thermal", "thermal_zone*"):
        milli = read_int(zone / "temp")
        kind = (read_text(zone / "type") or zone.name).replace("-thermal", "")
        if milli is None or kind in _FAKE_ZONES or not _BELIEVABLE_C[0] < milli / 1000 < _BELIEVABLE_C[1]:
            continue
        zones[kind if kind not in zones else f"{kind}-{zone.name[len('thermal_zone') :]}"] = milli / 1000
    return zones


def gpu_load(root: Path) -> Optional[float]:
    """Busy share of the GPU, 0 to 1; the kernel gives it per mille."""
    places = [root / "sys/devices/gpu.0", root / "sys/devices/platform/gpu.0", *_devfreq_gpus(root)]
    for place in places:
        per_mille = read_int(place / "load")
        if per_mille is not None:
            return min(max(per_mille / 1000, 0.0), 1.0)
    return None


def power_w(root: Path) -> Dict[str, float]:
    """Watts by power rail of the board's INA3221 sensors."""
    rails: Dict[str, float] = {}
    for chip in _folders(root / "sys/bus/i2c/devices", "*"):
        if "ina3221" not in (read_text(chip / "name") or ""):
            continue
        for monitor in _folders(chip / "hwmon", "hwmon*"):
            rails.update(_hwmon_rails(monitor))
        for monitor in _folders(chip, "iio:device*"):
            rails.update(_iio_rails(monitor))
    return rails


def power_total_w(rails: Dict[str, float]) -> Optional[float]:
    """Watts of the whole board: the input rail where there is one, else the sum."""
    for name in _TOTAL_RAILS:
        if name in rails:
            return rails[name]
    return round(sum(rails.values()), 3) if rails else None


def fan(root: Path) -> Optional[Dict[str, Optional[float]]]:
    """`{duty, rpm}` of the first fan, duty 0 to 1; None without one."""
    duty: Optional[int] = None
    rpm: Optional[int] = None
    for monitor in _folders(root / "sys/class/hwmon", "hwmon*"):
        name = read_text(monitor / "name") or ""
        if name in {"pwmfan", "pwm-fan"}:
            duty = read_int(monitor / "pwm1")
        if name in {"pwmfan", "pwm_tach", "tach"}:
            rpm = _first(read_int(monitor / "rpm"), read_int(monitor / "fan1_input"), rpm)
    old = root / "sys/devices/pwm-fan"
    duty = _first(duty, read_int(old / "cur_pwm"), read_int(old / "target_pwm"))
    rpm = _first(rpm, read_int(old / "rpm_measured"))
    if duty is None and rpm is None:
        return None
    return {"duty": None if duty is None else round(duty / 255, 3), "rpm": rpm}


def _devfreq_gpus(root: Path) -> Iterator[Path]:
    for entry in _folders(root / "sys/class/devfreq", "*"):
        device = entry / "device"
        if read_text(device / "of_node/name") in _GPU_NODES or entry.name.endswith((".gpu", ".gv11b", ".gp10b", ".ga10b")):
            yield device


def _hwmon_rails(monitor: Path) -> Iterator[Tuple[str, float]]:
    """JetPack 5 and later: inN_label, inN_input in mV, currN_input in mA."""
    for number in range(1, 9):
        label = read_text(monitor / f"in{number}_label")
        millivolt, milliampere = read_int(monitor / f"in{number}_input"), read_int(monitor / f"curr{number}_input")
        if label and label != "NC" and millivolt is not None and milliampere is not None:
            yield label, round(millivolt * milliampere / 1e6, 3)


def _iio_rails(monitor: Path) -> Iterator[Tuple[str, float]]:
    """JetPack 4: rail_name_N and in_powerN_input in mW."""
    for number in range(3):
        label, milliwatt = read_text(monitor / f"rail_name_{number}"), read_int(monitor / f"in_power{number}_input")
        if label and label != "NC" and milliwatt is not None:
            yield label, milliwatt / 1000


def _folders(parent: Path, pattern: str) -> List[Path]:
    """Sorted, so that the same board gives the same order each time."""
    try:
        return sorted(parent.glob(pattern), key=lambda path: (len(path.name), path.name))
    except OSError:
        return []


def _first(*values: Optional[int]) -> Optional[int]:
    return next((value for value in values if value is not None), None)
