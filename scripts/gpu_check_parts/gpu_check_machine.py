"""What there is on this machine: interpreters with TensorRT, the device, trtexec."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

ROOT = Path(__file__).resolve().parents[2]
_TRTEXEC = "/usr/src/tensorrt/bin/trtexec"
_PATIENCE_S = 120
_FACTS = """
import json, sys, types
package = types.ModuleType("edge_agent")
package.__path__ = [%r]
sys.modules["edge_agent"] = package
from edge_agent.engine_host.trt import library
print("FACTS " + json.dumps(library.facts()))
sys.stdout.flush()
import os
os._exit(0)
"""


def look(python: Optional[str], trtexec: Optional[str]) -> Dict[str, Any]:
    """The machine; `facts` are those of the first interpreter whose TensorRT can be used, else the last one's."""
    tried: Dict[str, Dict[str, Any]] = {}
    for candidate in _candidates(python):
        tried[candidate] = facts = _facts(candidate)
        if facts.get("available"):
            break
    chosen = list(tried)[-1]
    return {
        "system": " ".join((platform.system(), platform.release(), platform.machine())),
        "agent_python": sys.executable,
        "host_python": chosen,
        "facts": tried[chosen],
        "tried": {name: facts.get("text", "") for name, facts in tried.items() if name != chosen},
        "trtexec": _trtexec(trtexec),
    }


def _candidates(python: Optional[str]) -> Iterator[str]:
    if python:
        yield python
        return
    yield sys.executable
    if Path("/usr/bin/python3").exists() and Path("/usr/bin/python3").resolve() != Path(sys.executable).resolve():
        yield "/usr/bin/python3"


def _facts(python: str) -> Dict[str, Any]:
    """What the engine host's own probe says in that interpreter."""
    command = [python, "-I", "-c", _FACTS % str(ROOT / "edge_agent")]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"available": False, "code": "engine.no_library", "text": "%s cannot be run: %s" % (python, error)}
    for line in done.stdout.splitlines():
        if line.startswith("FACTS "):
            facts: Dict[str, Any] = json.loads(line[len("FACTS ") :])
            return facts
    last = (done.stderr.strip().splitlines() or ["it ended with %d" % done.returncode])[-1]
    return {"available": False, "code": "engine.no_library", "text": "looking for TensorRT in %s failed: %s" % (python, last)}


def _trtexec(given: Optional[str]) -> str:
    found = given or shutil.which("trtexec") or (_TRTEXEC if Path(_TRTEXEC).exists() else "")
    return found if found and shutil.which(found) else ""


def show(found: Dict[str, Any]) -> None:
    """Prints it."""
    facts = found["facts"]
    print("machine   %s" % found["system"])
    print("agent     %s" % found["agent_python"])
    for python, text in found["tried"].items():
        print("no        %s: %s" % (python, text))
    print("host      %s" % found["host_python"])
    if not facts.get("available"):
        print("MISSING   %s: %s" % (facts.get("code"), facts.get("text")))
        print("There is nothing to check here.")
        return
    sort = "shares the CPU's memory" if facts["integrated"] else "has memory of its own"
    capability = ".".join(map(str, facts["compute_capability"]))
    print("device    %s, compute capability %s, %s" % (facts["device"], capability, sort))
    print("TensorRT  %s (%s), CUDA driver %d" % (facts["tensorrt"], facts["api"], facts["cuda_driver"]))
    print("trtexec   %s" % (found["trtexec"] or "not here: plans are not timed beside it"))
