"""Trees of files as two boards have them, and a machine that tells nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Union

import pytest

Tree = Dict[str, Union[str, bytes]]

ORIN_NANO: Tree = {
    "proc/device-tree/model": b"NVIDIA Jetson Orin Nano Developer Kit\0",
    "proc/device-tree/compatible": b"nvidia,p3768-0000+p3767-0005-super\0nvidia,p3767-0005\0nvidia,tegra234\0",
    "proc/device-tree/serial-number": b"1421123456789\0",
    "etc/nv_tegra_release": "# R36 (release), REVISION: 4.3, GCID: 38968081, BOARD: generic, EABI: aarch64\nmore\n",
    "etc/machine-id": "0123456789abcdef0123456789abcdef\n",
    "proc/stat": "cpu  100 0 100 700 100 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal:        7802364 kB\nMemFree:          100 kB\nMemAvailable:    5000000 kB\n",
    "proc/uptime": "4242.17 8000.00\n",
    "proc/loadavg": "0.50 0.25 0.10 2/300 999\n",
    "sys/class/thermal/thermal_zone0/type": "cpu-thermal\n",
    "sys/class/thermal/thermal_zone0/temp": "48500\n",
    "sys/class/thermal/thermal_zone1/type": "gpu-thermal\n",
    "sys/class/thermal/thermal_zone1/temp": "47218\n",
    "sys/class/thermal/thermal_zone2/type": "cv0-thermal\n",
    "sys/class/thermal/thermal_zone2/temp": "-256000\n",
    "sys/class/thermal/thermal_zone10/type": "tj-thermal\n",
    "sys/class/thermal/thermal_zone10/temp": "48500\n",
    "sys/class/devfreq/17000000.gpu/device/load": "873\n",
    "sys/class/devfreq/17000000.gpu/device/of_node/name": b"gpu\0",
    "sys/bus/i2c/devices/1-0040/name": "ina3221\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/in1_label": "VDD_IN\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/in1_input": "5000\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/curr1_input": "1200\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/in2_label": "VDD_CPU_GPU_CV\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/in2_input": "5000\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/curr2_input": "240\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/in7_label": "sum of shunt voltages\n",
    "sys/bus/i2c/devices/1-0040/hwmon/hwmon1/in7_input": "99\n",
    "sys/bus/i2c/devices/1-0055/name": "eeprom\n",
    "sys/class/hwmon/hwmon0/name": "pwmfan\n",
    "sys/class/hwmon/hwmon0/pwm1": "51\n",
    "sys/class/hwmon/hwmon3/name": "pwm_tach\n",
    "sys/class/hwmon/hwmon3/rpm": "1804\n",
}

NANO: Tree = {
    "proc/device-tree/model": b"NVIDIA Jetson Nano Developer Kit\0",
    "proc/device-tree/compatible": b"nvidia,p3449-0000-b00+p3448-0000-b00\0nvidia,jetson-nano\0nvidia,tegra210\0",
    "proc/device-tree/serial-number": b"0323456789012\0",
    "etc/nv_tegra_release": "# R32 (release), REVISION: 7.1, GCID: 29818004, BOARD: t210ref, EABI: aarch64\n",
    "proc/stat": "cpu  10 0 10 70 10 0 0 0 0 0\n",
    "proc/meminfo": "MemTotal:        4059712 kB\nMemAvailable:    2048000 kB\n",
    "sys/class/thermal/thermal_zone0/type": "AO-therm\n",
    "sys/class/thermal/thermal_zone0/temp": "41000\n",
    "sys/class/thermal/thermal_zone1/type": "CPU-therm\n",
    "sys/class/thermal/thermal_zone1/temp": "34500\n",
    "sys/class/thermal/thermal_zone4/type": "PMIC-Die\n",
    "sys/class/thermal/thermal_zone4/temp": "100000\n",
    "sys/devices/gpu.0/load": "120\n",
    "sys/bus/i2c/devices/6-0040/name": "ina3221x\n",
    "sys/bus/i2c/devices/6-0040/iio:device0/rail_name_0": "POM_5V_IN\n",
    "sys/bus/i2c/devices/6-0040/iio:device0/in_power0_input": "2416\n",
    "sys/bus/i2c/devices/6-0040/iio:device0/rail_name_1": "POM_5V_GPU\n",
    "sys/bus/i2c/devices/6-0040/iio:device0/in_power1_input": "0\n",
    "sys/devices/pwm-fan/cur_pwm": "255\n",
}


@pytest.fixture
def orin_nano(tmp_path: Path) -> Path:
    return _plant(tmp_path / "orin-nano", ORIN_NANO)


@pytest.fixture
def nano(tmp_path: Path) -> Path:
    return _plant(tmp_path / "nano", NANO)


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    return _plant(tmp_path / "bare", {})


def _plant(root: Path, tree: Tree) -> Path:
    root.mkdir()
    for name, content in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return root
