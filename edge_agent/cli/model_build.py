"""`edge-agent models build`: waits for a TensorRT plan and shows how far it is."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Callable, Dict, List, Optional, TextIO

from edge_agent.cli import client
from edge_agent.cli.model_text import build_text, engine, plain, version_of
from edge_agent.cli.terminal import visible

_WORKING = ("queued", "building", "checking")
_POLL_S = 1.0
_LINE_S = 30.0  #: where lines cannot be written over, one comes this often and with each phase
_SETTLES_S = 15.0  #: after a build has failed the agent may go on with another precision

Models = Callable[[argparse.Namespace], List[Dict[str, Any]]]


class NoPlan(client.Refused):
    """The build came to nothing."""


class Progress:
    """One line that is written over on a terminal; elsewhere a line whenever there is something to tell."""

    def __init__(self, out: TextIO, label: str) -> None:
        self._out = out
        self._label = label
        self._over = out.isatty()
        self._phase = ""
        self._told_at = 0.0

    def show(self, build: Dict[str, Any]) -> None:
        """How far it is now."""
        line = "%s %s" % (self._label, build_text(build))
        now, phase = time.monotonic(), "%s %s %s" % (build["state"], build["phase"], build["tries"])
        if self._over:
            self._out.write("\r%s\x1b[K" % visible(line))
        elif phase != self._phase or now - self._told_at >= _LINE_S:
            self._out.write(line + "\n")
            self._told_at = now
        self._phase = phase
        self._out.flush()

    def end(self) -> None:
        """Whatever comes now begins a line of its own."""
        if self._over and self._phase:
            self._out.write("\n")
            self._out.flush()


def wait(args: argparse.Namespace, models: Models, begun: Dict[str, Any]) -> str:
    """Until the plan is built; what runs then. NoPlan; NotRunning where the agent ends meanwhile."""
    number = begun["version"]
    label = "%s/%s:" % (visible(str(begun["name"])), number)
    progress, outcome = Progress(sys.stderr, label), _Outcome(label)
    try:
        version: Optional[Dict[str, Any]] = begun
        while not outcome.known(version, time.monotonic()):
            if outcome.build:
                progress.show(outcome.build)
            time.sleep(_POLL_S)
            model = next((one for one in models(args) if one["name"] == begun["name"]), None)
            version = version_of(model, number)
    except KeyboardInterrupt:
        progress.end()
        print("the build goes on: edge-agent models show %s" % begun["name"], file=sys.stderr)
        raise
    progress.end()
    return outcome.text()


class _Outcome:
    """What the status of a version says about a build that was begun."""

    def __init__(self, label: str) -> None:
        self.build: Optional[Dict[str, Any]] = None  #: as it was seen last
        self._label = label
        self._version: Optional[Dict[str, Any]] = None
        self._failed_at: Optional[float] = None

    def known(self, version: Optional[Dict[str, Any]], now: float) -> bool:
        """Whether it is over."""
        self._version = version
        build = None if version is None else version.get("build")
        if version is None or not build:
            return True  # taken down, or loaded anew without it
        self.build = build
        if build["state"] in _WORKING:
            self._failed_at = None
            return False
        if build["state"] == "done" or version.get("code") != "engine.building":
            return True
        self._failed_at = now if self._failed_at is None else self._failed_at
        return now - self._failed_at >= _SETTLES_S

    def text(self) -> str:
        """What runs; NoPlan where that is no new plan."""
        version, build = self._version, self.build or {}
        if version is None:
            raise NoPlan("%s it was taken down during the build" % self._label)
        if version.get("build") and build["state"] == "done":
            return "%s %s" % (self._label, engine(version))
        why = plain(str(build.get("reason") or version.get("reason") or "it ended without one; the log says more"))
        more = ["it goes on with " + engine(version)] if version.get("engine") else ["nothing serves it"]
        more += ["what to do: " + plain(str(version["cure"]))] if version.get("cure") else []
        raise NoPlan("\n    ".join(["%s no new plan: %s" % (self._label, why), *more]))
