"""What `edge-agent check` finds of interpreters that children run under."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from typing import Dict, Iterator, Mapping, Tuple

from edge_agent.config.hosts import HostSection

Fault = Tuple[str, str, str]

_IMPORT_S = 60.0  #: a small board that has just booted reads it slowly
_MOST = 300  #: characters of what it says

_INSTALL = "install it, or name another interpreter"


def host_faults(hosts: Mapping[str, HostSection]) -> Iterator[Fault]:
    """Interpreters of engine hosts: they must run, and have numpy."""
    known: Dict[str, str] = {}
    for name, host in hosts.items():
        python = host.python
        if not python:
            continue
        path = "hosts.%s.python" % name
        missing = list(python_faults(path, python))
        yield from missing
        if missing:
            continue
        if python not in known:
            known[python] = _import_fault(python)
        if known[python]:
            yield path, known[python], "install numpy for it, or name another interpreter"


def python_faults(path: str, python: str) -> Iterator[Fault]:
    """An interpreter that is named and cannot be run at all."""
    if python and shutil.which(python) is None:
        yield path, "%s cannot be run" % python, _INSTALL


def _import_fault(python: str) -> str:
    """Why numpy cannot be imported there, run as hosts are; empty where it can."""
    with tempfile.TemporaryFile() as said:  # a pipe would wait for whatever else the interpreter has started
        try:
            command = [python, "-I", "-c", "import numpy"]
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, timeout=_IMPORT_S, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            return "%s did not import numpy within %g s" % (python, _IMPORT_S)
        except OSError as error:
            return "%s cannot be run: %s" % (python, error.strerror)
        if code == 0:
            return ""
        said.seek(0)
        lines = said.read().decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "it ended with %d" % code)
    return "%s cannot import numpy: %s" % (python, last[:_MOST])
