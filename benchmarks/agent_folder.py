"""A folder with a repository of one model and the configuration of an agent that serves it: what every benchmark starts."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Dict, List

ROOT = Path(__file__).resolve().parent.parent

_CONFIG = """\
[agent]
id = "bench"
state_dir = "state"
[http]
port = {port}
[metrics]
port = 0
[models]
repository = "models"
control_mode = "none"
[hosts.cpu]
threads = 1
[hosts.python]
threads = 1
"""

_MODEL = """\
max_batch_size = {batch}
[dynamic_batching]
max_queue_delay_microseconds = {delay_us}
"""


def make(folder: Path, name: str, model: Path, port: int, batch: int, delay_us: int = 0, more: str = "") -> Path:
    """Writes it; its configuration file. `model` is an ONNX file or a `model.py`, `more` goes in front of its configuration."""
    version = folder / "models" / name / "1"
    version.mkdir(parents=True, exist_ok=True)
    shutil.copy(str(model), str(version / ("model" + model.suffix)))
    (version.parent / "config.toml").write_text(more + _MODEL.format(batch=batch, delay_us=delay_us))
    config = folder / "edge-agent.toml"
    config.write_text(_CONFIG.format(port=port))
    return config


def command(config: Path, python: str = sys.executable) -> List[str]:
    """What runs it."""
    return [python, "-m", "edge_agent", "-c", str(config), "run"]


def environment() -> Dict[str, str]:
    """With this checkout's package first."""
    return {**os.environ, "PYTHONPATH": str(ROOT)}
