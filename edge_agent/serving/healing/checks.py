"""What checks have said of plans on this box: no file that came from elsewhere can say it."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Tuple

from edge_agent.config.durable import write_durably

_log = logging.getLogger(__name__)

_SCHEMA = 1
_MAX_CHECKS = 512
_MAX_BYTES = 4 << 20
_MAX_REASON = 1000


class Check(NamedTuple):
    """The end of one check."""

    good: bool
    figures: Mapping[str, Any]
    reason: str = ""  #: of a plan that is not good


class Checks:
    """`proofs.json`, by key, demands and digest of the plan. What cannot be written down holds until the restart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._checks: Dict[Tuple[str, str, str], Check] = {}
        self._told = False

    def load(self) -> None:
        """Reads what earlier runs have left. A damaged file is none: plans are checked anew then."""
        try:
            with self._path.open("rb") as file:
                self._checks = _decode(file.read(_MAX_BYTES + 1))
        except FileNotFoundError:
            return
        except (OSError, ValueError, TypeError, RecursionError) as exc:
            _log.warning("checks of plans are forgotten: %s: %s", self._path, exc)

    def of(self, key: str, demands: str) -> Dict[str, Check]:
        """By the plan's digest, oldest first: all that is known of plans of this key under these demands."""
        return {one[2]: check for one, check in self._checks.items() if one[:2] == (key, demands)}

    def put(self, key: str, demands: str, sha256: str, check: Check) -> None:
        """A check is over. `demands`: what the plan had to fulfil."""
        self._checks.pop((key, demands, sha256), None)
        while len(self._checks) >= _MAX_CHECKS:
            del self._checks[next(iter(self._checks))]
        self._checks[(key, demands, sha256)] = check._replace(reason=check.reason[:_MAX_REASON])
        self._save()

    def forget(self, key: str) -> None:
        """Plans of this key are to be checked anew."""
        known = [one for one in self._checks if one[0] == key]
        for one in known:
            del self._checks[one]
        if known:
            self._save()

    def _save(self) -> None:
        table = [[*one, check._asdict()] for one, check in self._checks.items()]
        try:
            write_durably(self._path, json.dumps({"schema": _SCHEMA, "checks": table}, indent=1).encode("ascii"))
        except OSError as exc:
            if not self._told:
                _log.warning("checks of plans cannot be kept over a restart: %s: %s", self._path, exc.strerror)
            self._told = True
        else:
            self._told = False


def _decode(data: bytes) -> Dict[Tuple[str, str, str], Check]:
    """Raises ValueError, TypeError."""
    document: Any = json.loads(data.decode("utf-8")) if len(data) <= _MAX_BYTES else None
    if not isinstance(document, dict) or document.get("schema") != _SCHEMA or not isinstance(document.get("checks"), list):
        raise ValueError("it is not of this version of the agent")
    found = {}
    for key, demands, sha256, fields in document["checks"][-_MAX_CHECKS:]:
        check = Check(**fields)
        if not (isinstance(check.good, bool) and isinstance(check.figures, dict) and isinstance(check.reason, str)):
            raise ValueError("a check is not what it should be")
        found[(str(key), str(demands), str(sha256))] = check
    return found
