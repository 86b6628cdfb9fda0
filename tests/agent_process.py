"""The agent as a process of its own: started from a configuration text, asked over HTTP, ended with nothing left of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "tests" / "data"
_HTTP = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def descendants(pid: int) -> List[int]:
    """Processes below `pid` that live."""
    found: List[int] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            child = int(stat.parent.name)
            found += [child, *descendants(child)]
    return found


def alive(pid: int) -> bool:
    """Whether the process is there and not a zombie."""
    try:
        return Path("/proc/%d/stat" % pid).read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition: Any, within_s: float, what: str) -> Any:
    """Polls until `condition()` answers something true."""
    end = time.monotonic() + within_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < end, "%s did not come within %g s" % (what, within_s)
        time.sleep(0.05)


def _joined(headers: Any) -> Dict[str, str]:
    return {name: ", ".join(headers.get_all(name)) for name in headers}


class AgentProcess:
    """`with AgentProcess(tmp_path, models, extra) as agent:` runs until ready; stderr goes to agent.log."""

    def __init__(
        self, folder: Path, models: Path, extra: str = "", http: str = "", environ: Optional[Dict[str, str]] = None
    ) -> None:
        self.folder = folder
        self.port = free_port()
        self.base = "http://127.0.0.1:%d" % self.port
        self.config = folder / "agent.toml"
        self.log = folder / "agent.log"
        self.environ = {**os.environ, **(environ or {})}
        self.config.write_text(
            '[agent]\nid = "box"\nstate_dir = "state"\n[http]\nport = %d\n%s'
            '[metrics]\nport = 0\n[models]\nrepository = "%s"\n%s' % (self.port, http, models, extra)
        )
        self.process: subprocess.Popen[bytes]

    def command(self, *verb: str) -> List[str]:
        """The agent's command line for a verb with this configuration."""
        return [sys.executable, "-m", "edge_agent", "-c", str(self.config), *verb]

    def start(self, ready_within_s: float = 60.0) -> AgentProcess:
        """Starts it and waits until it is ready."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command("run"), stderr=log, stdout=log, cwd=str(ROOT), env=self.environ)
        try:
            until(self.ready, ready_within_s, "the agent's readiness")
        except BaseException:
            self.stop()
            raise
        return self

    def ready(self) -> bool:
        """Whether /v2/health/ready says so; an agent that ended fails the test with its log."""
        assert self.process.poll() is None, self.log.read_text()
        try:
            return self.get("/v2/health/ready")[0] == 200
        except OSError:
            return False

    def stop(self) -> int:
        """Orderly; the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def __enter__(self) -> AgentProcess:
        return self.start()

    def __exit__(self, *exc: Any) -> None:
        below = descendants(self.process.pid)
        self.stop()
        until(lambda: not any(map(alive, below)), 5, "the end of the children")

    # -- asking -----------------------------------------------------------------------------------------------------

    def ask(
        self, path: str, body: Optional[bytes] = None, headers: Optional[Dict[str, str]] = None, timeout_s: float = 30.0
    ) -> Tuple[int, bytes, Dict[str, str]]:
        """(status, body, headers) of a GET, or a POST when there is a body."""
        request = urllib.request.Request(self.base + path, data=body, headers=headers or {})
        try:
            with _HTTP.open(request, timeout=timeout_s) as answer:
                return answer.status, answer.read(), _joined(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read(), _joined(error.headers)

    def get(self, path: str, **headers: str) -> Tuple[int, bytes]:
        """(status, body)."""
        return self.ask(path, headers=headers)[:2]

    def json(self, path: str) -> Any:
        """The body of a 200."""
        status, body = self.get(path)
        assert status == 200, body
        return json.loads(body)

    def status(self) -> Any:
        """`/api/status`."""
        return self.json("/api/status")

    def detect(self, model: str, picture: bytes, content_type: str = "image/jpeg", query: str = "") -> Tuple[int, Any]:
        """(status, body) of a detect call."""
        status, body, _ = self.ask("/api/models/%s/detect%s" % (model, query), picture, {"Content-Type": content_type})
        return status, json.loads(body)

    def cli(self, *verb: str) -> subprocess.CompletedProcess[str]:
        """Runs a verb beside the agent."""
        return subprocess.run(
            self.command(*verb), capture_output=True, text=True, timeout=60, cwd=str(ROOT), env=self.environ, check=False
        )

    def child_pid(self, name: str) -> int:
        """Process of a child by its name (`host:cpu`, `camera:clip`, `image`); 0 when there is none."""
        for pid in descendants(self.process.pid):
            try:
                arguments = Path("/proc/%d/comm" % pid).read_text().strip()
            except OSError:
                continue
            if arguments == name[:15]:
                return pid
        return 0
