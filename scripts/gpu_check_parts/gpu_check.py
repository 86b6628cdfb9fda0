"""Does the agent work with this machine's TensorRT and GPU? Builds, loads, compares, times and breaks engines.

    ./scripts/gpu_check [--python /usr/bin/python3] [--json FILE]

A real agent builds plans of small models and of a MobileNet in each precision that the device has, is compared with ONNX
Runtime, is timed beside trtexec on the same plans, and loses its engine host in the midst of a batch. Nothing is downloaded,
nothing is left but the JSON file. Ends with 0 when all is well, else with 1, also when there is nothing to check.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, Dict, List

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

NEEDED = {
    "aiohttp": "aiohttp",
    "numpy": "numpy",
    "onnxruntime": "onnxruntime",
    "paho": "paho-mqtt",
    "peewee": "peewee",
    "prometheus_client": "prometheus-client",
    "pydantic": "pydantic",
    "typing_extensions": "typing_extensions",
}
ALL_WELL, NOT_WELL = 0, 1
_GRACE_S = 20


def main() -> int:
    """The exit code."""
    options = _options()
    missing = [package for module, package in NEEDED.items() if importlib.util.find_spec(module) is None]
    if sys.version_info < (3, 8) or missing:
        return _say_what_is_missing(missing)
    signal.signal(signal.SIGALRM, _out_of_time)
    signal.alarm(int(options.limit_s) + _GRACE_S)
    report: Dict[str, Any] = {"faults": [], "models": [], "engine": []}
    try:
        with tempfile.TemporaryDirectory(prefix="edge-agent-gpu-") as folder:
            return _check(options, Path(folder), report)
    except TimeoutError as error:
        report["faults"].append(str(error))
        return NOT_WELL
    finally:
        signal.alarm(0)
        options.json.write_text(json.dumps(report, indent=2) + "\n")
        print("\nwritten to %s" % options.json)


def _options() -> argparse.Namespace:
    doc = (__doc__ or "").split("\n")
    parser = argparse.ArgumentParser(prog="gpu_check", description=doc[0], epilog=" ".join(doc[-4:-1]))
    parser.add_argument("--python", help="interpreter that has tensorrt and pycuda (tried: this one, /usr/bin/python3)")
    parser.add_argument("--json", type=Path, default=Path("gpu-check.json"), help="where the figures go (%(default)s)")
    parser.add_argument("--trtexec", help="trtexec, where it is neither on the PATH nor in /usr/src/tensorrt/bin")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each measurement (%(default)g)")
    parser.add_argument("--limit-s", type=float, default=300.0, help="end of it all (%(default)g)")
    parser.add_argument("--size", type=int, default=224, help="height and width of the MobileNet's pictures (%(default)d)")
    parser.add_argument("--width", type=float, default=1.0, help="share of the MobileNet's channels (%(default)g)")
    parser.add_argument("--clients", type=int, default=16, help="for the throughput (%(default)d)")
    return parser.parse_args()


def _say_what_is_missing(missing: List[str]) -> int:
    if sys.version_info < (3, 8):  # noqa: UP036 - said plainly, where another Python was set
        print("gpu_check: the agent needs Python 3.8 or later, this is %s; set PYTHON" % sys.version.split()[0])
        return NOT_WELL
    print("gpu_check: %s lacks %s" % (sys.executable, ", ".join(missing)))
    print("  python3 -m venv .venv && .venv/bin/pip install -e '.[jetson]'     (or set PYTHON to an interpreter that has them)")
    print("  tensorrt and pycuda may be another interpreter's: --python")
    return NOT_WELL


def _out_of_time(*_: Any) -> None:
    raise TimeoutError("it took longer than --limit-s")


def _check(options: argparse.Namespace, folder: Path, report: Dict[str, Any]) -> int:
    import gpu_check_machine as machine  # noqa: PLC0415 - it was looked whether these can be imported

    report["machine"] = found = machine.look(options.python, options.trtexec)
    machine.show(found)
    if not found["facts"].get("available"):
        return NOT_WELL
    import gpu_check_run  # noqa: PLC0415

    gpu_check_run.run(options, folder, report)
    gpu_check_run.show(report)
    return NOT_WELL if report["faults"] else ALL_WELL


if __name__ == "__main__":
    sys.exit(main())
