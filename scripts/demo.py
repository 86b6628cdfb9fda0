"""Runs the demo: the agent with configs/demo.toml, a broker if there is none, and what it finds on this terminal.

./scripts/demo calls it with the interpreter of .venv.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

import demo_broker
import make_demo_model
from demo_processes import Ended, ends_with_parent, free_port

ROOT = Path(__file__).resolve().parent.parent
CONFIG = ROOT / "configs" / "demo.toml"
STATE = ROOT / "var" / "demo"
READY_WITHIN_S = 60
SHOWN_RESULTS = 5
#: the machine's own proxy settings must not catch calls to this machine
HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def main() -> int:
    """The demo; answers the agent's exit code."""
    options = _options()
    signal.signal(signal.SIGTERM, _raise_ended)
    try:
        STATE.mkdir(parents=True, exist_ok=True)
        with _only_one(), contextlib.ExitStack() as stack:
            _make_model()
            print("[4/4] Starting the agent", flush=True)
            return _run(options, stack)
    except (KeyboardInterrupt, Ended):
        return 130
    except (make_demo_model.DemoModelError, OSError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="demo", description="A real face detector on a looping clip; Ctrl-C ends it.")
    parser.add_argument("--seconds", type=float, metavar="N", help="end by itself, N seconds after it is ready")
    parser.add_argument("--port", type=int, default=8000, help="port of the page and the API (a taken one gives the next free)")
    options = parser.parse_args()
    if not 1 <= options.port <= 65535:
        parser.error("--port: between 1 and 65535")
    if options.seconds is not None and options.seconds < 0:
        parser.error("--seconds: not below 0")
    return options


@contextlib.contextmanager
def _only_one() -> Iterator[None]:
    """Two demos of one clone would write one database."""
    with open(STATE / "demo.lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise OSError("the demo of this folder runs already; end that one first") from None
        yield


def _make_model() -> None:
    folder = STATE / "models" / "face"
    if not make_demo_model.is_made(folder):
        print("[3/4] Fetching the face detector (CenterFace, 7 MB)", flush=True)
        make_demo_model.make(folder)


def _run(options: argparse.Namespace, stack: contextlib.ExitStack) -> int:
    environ = dict(os.environ)
    port = free_port(options.port)
    if port != options.port:
        print(f"      port {options.port} is taken: using {port}")
    environ["EDGE_AGENT__HTTP__PORT"] = str(port)
    environ["EDGE_AGENT__METRICS__PORT"] = str(free_port(8002))
    broker = demo_broker.find_or_start(stack)
    print("      " + broker.text)
    if broker.port is not None:
        environ["EDGE_AGENT__MQTT__HOST"] = "127.0.0.1"
        environ["EDGE_AGENT__MQTT__PORT"] = str(broker.port)
    command = [sys.executable, "-m", "edge_agent", "-c", str(CONFIG), "run"]
    # a session of its own: Ctrl-C reaches the agent once, from here, not twice
    agent = subprocess.Popen(command, env=environ, cwd=str(ROOT), start_new_session=True, preexec_fn=ends_with_parent)  # noqa: PLW1509
    try:
        return _watch(agent, f"http://127.0.0.1:{port}", options.seconds)
    finally:
        _end(agent)


def _watch(agent: subprocess.Popen[bytes], address: str, seconds: Optional[float]) -> int:
    """Until the agent ends, the time is over, or somebody ends the demo."""
    begun = time.monotonic()
    while not _is_ready(address):
        if agent.poll() is not None:
            print(f"demo: the agent ended with {agent.returncode} before it was ready; it says why above", file=sys.stderr)
            return agent.returncode or 1
        if time.monotonic() - begun > READY_WITHIN_S:
            print(f"demo: not ready after {READY_WITHIN_S} s; see {address}/api/status", file=sys.stderr)
            return 1
        time.sleep(0.1)
    print(f"\nThe page: {address}/\n", flush=True)
    results = Results(address)
    end = None if seconds is None else time.monotonic() + seconds
    try:
        while agent.poll() is None and (end is None or time.monotonic() < end):
            results.show_new()
            time.sleep(0.5 if end is None else min(0.5, max(end - time.monotonic(), 0.01)))
    except (KeyboardInterrupt, Ended):
        print("\nEnding", flush=True)
    results.show_new()
    ended_itself = agent.poll() is not None
    code = _end(agent)
    print(f"{results.seen} results, {results.with_objects} of them with faces, are in {STATE / 'edge-agent.db'}")
    print("See them with: .venv/bin/edge-agent results -c configs/demo.toml --since 1h", flush=True)
    if ended_itself:
        print(f"demo: the agent ended by itself with {code}", file=sys.stderr)
        return code or 1
    return code


class Results:
    """What the agent has found since the start, the first few of it printed."""

    def __init__(self, address: str) -> None:
        self.seen = 0
        self.with_objects = 0
        self._address = address
        self._since = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.000Z")
        self._newest = 0
        self._shown = 0

    def show_new(self) -> None:
        """Counts all that came since the last call and prints those with objects, until enough were."""
        for result in reversed(self._new()):
            self.seen += 1
            if result["objects"]:
                self.with_objects += 1
                self._print(result)

    def _new(self) -> List[Dict[str, Any]]:
        """Rows since the last look, newest first; what an earlier run left is not this run's."""
        page = _get_json(f"{self._address}/api/results?limit=200&since={self._since}")
        rows = [row for row in (page or {}).get("results", []) if row["seq"] > self._newest]
        self._newest = max([row["seq"] for row in rows], default=self._newest)
        return rows

    def _print(self, result: Dict[str, Any]) -> None:
        if self._shown >= SHOWN_RESULTS:
            return
        self._shown += 1
        for found in result["objects"]:
            x1, y1, x2, y2 = found["box"]
            where = f"{x1:.0f},{y1:.0f} {x2 - x1:.0f}x{y2 - y1:.0f}"
            print(
                f"{result['captured_at'][11:23]}  {result['source']}  {found['label']} {found['score']:.2f} at {where}",
                flush=True,
            )
        if self._shown == SHOWN_RESULTS:
            print("... and so on: the page shows them as they come. Ctrl-C ends the demo.", flush=True)


def _is_ready(address: str) -> bool:
    try:
        with HTTP.open(address + "/v2/health/ready", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _get_json(address: str) -> Optional[Dict[str, Any]]:
    """None when the agent does not answer just now."""
    try:
        with HTTP.open(address, timeout=2) as answer:
            content = json.load(answer)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _end(agent: subprocess.Popen[bytes]) -> int:
    """Asks once, then again (which means: at once), then does not ask."""
    for ask, patience_s in ((agent.terminate, 40), (agent.terminate, 5), (agent.kill, 5)):
        if agent.poll() is not None:
            break
        ask()
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt, Ended):
            agent.wait(patience_s)
    return agent.returncode if agent.returncode is not None else 1


def _raise_ended(number: int, frame: object) -> None:
    raise Ended


if __name__ == "__main__":
    sys.exit(main())
