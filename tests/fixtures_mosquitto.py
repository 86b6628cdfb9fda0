"""A real mosquitto for one test: own port, own folder, ended with the test.

Import `mosquitto_fixture` into a test module (or conftest.py) to have the fixture `mosquitto`.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Callable, Iterator, List, Optional

import pytest

_MOSQUITTO = shutil.which("mosquitto") or "/usr/sbin/mosquitto"


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Mosquitto:
    """One broker; `start`, `kill`, `terminate`, `freeze` and `thaw` as often as the test likes."""

    def __init__(self, folder: Path, lines: List[str], password: Optional[str] = None, tls: bool = False) -> None:
        self.folder = folder
        self.port = free_port()
        self.tls_port = free_port() if tls else 0
        self._process: Optional[subprocess.Popen] = None
        self.ca_file = folder / "ca.pem"
        config = ["per_listener_settings false", "user root", "log_dest file " + str(folder / "mosquitto.log")]
        config += ["persistence true", f"persistence_location {folder}/", "autosave_interval 1"]
        if password is None:
            config += ["allow_anonymous true"]
        else:
            user, secret = password.split(":")
            passwords = folder / "passwords"
            subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), user, secret], check=True, capture_output=True)
            config += ["allow_anonymous false", f"password_file {passwords}"]
        config += lines + [f"listener {self.port} 127.0.0.1"]
        if tls:
            self._make_certificates()
            config += [f"listener {self.tls_port} 127.0.0.1", f"cafile {self.ca_file}"]
            config += [f"certfile {folder / 'server.pem'}", f"keyfile {folder / 'server.key'}"]
        (folder / "mosquitto.conf").write_text("\n".join(config) + "\n")

    def _make_certificates(self) -> None:
        def openssl(*words: str) -> None:
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

        key = ["-newkey", "rsa:2048", "-nodes"]
        openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
        openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
        (self.folder / "san.txt").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        sign = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "san.txt"]
        openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", *sign)

    def start(self) -> None:
        """Run it, and wait until it takes connections."""
        command = [_MOSQUITTO, "-c", str(self.folder / "mosquitto.conf")]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while time.monotonic() < until:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, (self.folder / "mosquitto.log").read_text()
                time.sleep(0.01)
            else:
                return
        raise AssertionError("mosquitto did not start")

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # a frozen one must not say another word before it is killed
            process.wait(10)

    def kill(self) -> None:
        """As a power cut does."""
        self._end(signal.SIGKILL)

    def terminate(self) -> None:
        """As an administrator does."""
        self._end(signal.SIGTERM)

    def freeze(self) -> None:
        """Keeps its connections and says nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Goes on after freeze()."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def command(self, tool: str, *words: str) -> List[str]:
        """A mosquitto_pub, _sub or _rr command line to this broker."""
        return [tool, "-h", "127.0.0.1", "-p", str(self.port), *words]

    def log(self) -> str:
        """What the broker wrote."""
        return (self.folder / "mosquitto.log").read_text(errors="replace")


MosquittoMaker = Callable[..., Mosquitto]


@pytest.fixture(name="make_mosquitto")
def make_mosquitto_fixture(tmp_path: Path) -> Iterator[MosquittoMaker]:
    """`make_mosquitto(lines=[], password="user:secret", tls=True, start=True)`; every one ends with the test."""
    made: List[Mosquitto] = []

    def make(*lines: str, password: Optional[str] = None, tls: bool = False, start: bool = True) -> Mosquitto:
        folder = tmp_path / f"mosquitto-{len(made)}"
        folder.mkdir()
        broker = Mosquitto(folder, list(lines), password, tls)
        made.append(broker)
        if start:
            broker.start()
        return broker

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture(name="mosquitto")
def mosquitto_fixture(make_mosquitto: MosquittoMaker) -> Mosquitto:
    """A broker that lets everybody in."""
    return make_mosquitto()
