"""What people write for a moment: `15m`, `1h`, `2d` ago, or RFC 3339."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

from edge_agent.domain.clock import rfc3339
from edge_agent.errors import InvalidRequest

_AGO = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d):(\d\d)(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def moment(text: str, now: float, name: str = "since") -> str:
    """The moment in the one form that rows use (UTC, milliseconds); `now` is in seconds since the epoch.

    Raises:
        InvalidRequest: neither form; the text names the parameter.
    """
    try:
        ago = _AGO.fullmatch(text)
        if ago:
            return rfc3339(now - int(ago.group(1)) * _SECONDS[ago.group(2)])
        stamp = _RFC3339.fullmatch(text)
        if stamp:
            return rfc3339(_epoch(*stamp.groups()))
    except (ValueError, OverflowError, OSError):
        pass  # a month 13, a year before 1: said below like any other nonsense
    raise InvalidRequest("%s: %r is no moment; write 15m, 1h or 2d (ago), or 2026-01-31T08:00:00Z" % (name, text[:64]))


def _epoch(date: str, minute: str, second: str, fraction: str, zone: str) -> float:
    seconds = min(int(second), 59)  # a leap second is the end of its minute
    local = datetime.strptime("%s %s" % (date, minute), "%Y-%m-%d %H:%M").replace(tzinfo=timezone.utc)
    if int(second) > 60:
        raise ValueError(second)
    milliseconds = int(((fraction or ".") + "000")[1:4])
    offset = timedelta() if zone in "Zz" else timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
    utc = local - offset if zone[0] != "-" else local + offset
    return utc.timestamp() + seconds + milliseconds / 1000
