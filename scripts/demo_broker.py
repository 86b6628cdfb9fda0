"""The demo's MQTT broker: the one on this machine if it lets anybody in, else a mosquitto of the demo's own."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NamedTuple, Optional

from demo_processes import ends_with_parent, free_port

#: MQTT 3.1.1 CONNECT without a name: clean session, keep-alive 10 s, empty client id
_CONNECT = bytes.fromhex("100c00044d5154540402000a0000")
_ACCEPTED = bytes.fromhex("20020000")
_USUAL_PORT = 1883


class Broker(NamedTuple):
    """Where it is (None: nowhere), and a line for the terminal."""

    port: Optional[int]
    text: str


def find_or_start(stack: contextlib.ExitStack) -> Broker:
    """A broker for the demo; one that is started ends with `stack`."""
    if accepts(_USUAL_PORT):
        return Broker(_USUAL_PORT, f"MQTT: the broker on 127.0.0.1:{_USUAL_PORT}")
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        return Broker(None, "MQTT: off, as there is no broker here (Debian, Ubuntu: apt-get install mosquitto)")
    port = _start(program, stack)
    if port is None:
        return Broker(None, "MQTT: off, as mosquitto did not start")
    return Broker(port, f"MQTT: a mosquitto of the demo's own on 127.0.0.1:{port}")


def accepts(port: int) -> bool:
    """Whether a broker there takes a client without a name and password."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            connection.sendall(_CONNECT)
            return connection.recv(4) == _ACCEPTED
    except OSError:
        return False


def _start(program: str, stack: contextlib.ExitStack) -> Optional[int]:
    port = free_port(_USUAL_PORT + 1)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="edge-agent-demo-")))
    config = folder / "mosquitto.conf"
    # a change of user, which it makes when started as root, would take the death signal off
    lines = [f"listener {port} 127.0.0.1", "allow_anonymous true", "persistence false", "log_dest none"]
    lines += ["user root"] if os.geteuid() == 0 else []
    config.write_text("\n".join(lines) + "\n", encoding="utf-8")
    broker = subprocess.Popen(
        [program, "-c", str(config)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=ends_with_parent,  # noqa: PLW1509 - this process has no threads
    )
    stack.callback(_end, broker)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline and broker.poll() is None:
        if accepts(port):
            return port
        time.sleep(0.05)
    return None


def _end(broker: subprocess.Popen[bytes]) -> None:
    broker.terminate()
    try:
        broker.wait(5)
    except subprocess.TimeoutExpired:
        broker.kill()
        broker.wait(5)
