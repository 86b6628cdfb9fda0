"""One process of the system: its command, its birth, its end, and the certainty that it has been reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple

from edge_agent.domain.clock import Clock
from edge_agent.engine_host import wire
from edge_agent.errors import ChildGone

_BOOT = str(Path(wire.__file__).with_name("boot.py"))
_FIRST_LOOK_S = 0.001
_SLOWEST_LOOK_S = 0.05
#: what systemd tells the agent and only the agent
_AGENTS_OWN = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")


@dataclass(frozen=True)
class ChildSpec:
    """What to start and how patient to be with it."""

    name: str  #: shows in `top` and names the log, as in host:cpu
    module: str  #: has `main(control_socket, args)`
    python: str = ""  #: its interpreter; the agent's own when empty
    args: Tuple[str, ...] = ()
    path: Tuple[str, ...] = ()  #: directories to import from, before all others
    oom_score_adj: int = 500
    nice: int = 0
    ping_interval_s: float = 1.0
    silence_s: float = 4.0  #: unanswered pings end it after this, unless an operation with a budget runs
    start_timeout_s: float = 30.0  #: until its first answer
    kill_timeout_s: float = 5.0  #: a process that SIGKILL has not ended by then is given up
    backoff_first_s: float = 0.2
    backoff_cap_s: float = 10.0

    def command(self, parent: int, control: int) -> List[str]:
        """The command line; `control` is the number of the child's control descriptor."""
        options = ["--name=" + self.name, "--oom=%d" % self.oom_score_adj, "--nice=%d" % self.nice]
        options += ["--path=" + directory for directory in self.path]
        python = self.python or sys.executable
        return [python, "-I", "-u", _BOOT, self.module, str(parent), str(control), *options, "--", *self.args]


class Process:
    """A spawned process, reaped without a thread or a signal handler: who awaits its end looks often."""

    def __init__(self, popen: subprocess.Popen[bytes], clock: Clock) -> None:
        self._popen = popen
        self._clock = clock
        self.pid = popen.pid

    @staticmethod
    def spawn(spec: ChildSpec, control: socket.socket, clock: Clock) -> Tuple[Process, int]:
        """(the process, descriptor of its output pipe). ChildGone when the system refuses.

        On the main thread only: the death signal follows the spawning thread, not the process.
        """
        if threading.current_thread() is not threading.main_thread():
            raise ChildGone("children are started from the main thread only: they end with the thread that started them")
        environment = {key: value for key, value in os.environ.items() if key not in _AGENTS_OWN}
        try:
            output, theirs = os.pipe()
            try:
                popen = subprocess.Popen(
                    spec.command(os.getpid(), control.fileno()),
                    stdin=subprocess.DEVNULL,
                    stdout=theirs,
                    stderr=theirs,
                    pass_fds=(control.fileno(),),
                    env=environment,
                )
            except BaseException:
                os.close(output)
                raise
            finally:
                os.close(theirs)
        except OSError as error:
            raise ChildGone("%s cannot be started: %s" % (spec.name, error)) from error
        return Process(popen, clock), output

    @property
    def returncode(self) -> Optional[int]:
        """Exit status, negative for a signal; None until reaped."""
        return self._popen.returncode

    def poll(self) -> bool:
        """Whether it has ended; reaps it if so."""
        return self._popen.poll() is not None

    def signal(self, number: int) -> None:
        """Sends a signal; nothing when it has been reaped (its pid may be somebody else's)."""
        with contextlib.suppress(ProcessLookupError):
            self._popen.send_signal(number)

    def kill(self) -> None:
        """SIGKILL."""
        self.signal(signal.SIGKILL)

    async def reaped(self, timeout_s: float) -> bool:
        """Waits for its end; False when it is still there after `timeout_s`."""
        deadline = self._clock.monotonic() + timeout_s
        pause_s = _FIRST_LOOK_S
        while not self.poll():
            left_s = deadline - self._clock.monotonic()
            if left_s <= 0:
                return False
            await asyncio.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _SLOWEST_LOOK_S)
        return True

    def epitaph(self) -> str:
        """How it ended, for people."""
        code = self._popen.returncode
        if code is None:
            return "still there"
        if code >= 0:
            return "ended with exit code %d" % code
        try:
            return "ended by %s" % signal.Signals(-code).name
        except ValueError:
            return "ended by signal %d" % -code
