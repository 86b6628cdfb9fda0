"""Which requests become rows of `request_log`. Pure: time is handed in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Dict, List, NamedTuple, Optional

from edge_agent.domain.results import RequestRecord

#: rows a second and source that are kept one by one; the rest of that second is counted in one row
ROWS_PER_S = 100
#: sources that are told apart; clients choose the names, so their number has an end
_SOURCES_MAX = 256
_OTHERS = "*"


class CountedRequest(NamedTuple):
    """A request, or `number` of them in one row."""

    record: RequestRecord
    number: int = 1


@dataclass
class _Second:
    started: float
    rows: int = 0
    sampled_at: Optional[float] = None
    rest: Optional[CountedRequest] = None


class RequestSampler:
    """Applies `[store] request_log`: all, sampled, errors or none."""

    def __init__(self, policy: str, per_s: float) -> None:
        self._policy = policy
        self._interval_s = 1.0 / per_s if per_s > 0 else None
        self._sources: Dict[str, _Second] = {}

    def admit(self, record: RequestRecord, sampled: bool, now: float) -> bool:
        """Whether this request gets a row of its own; if not it may be counted for `rest`."""
        failed = record.status != "ok"
        if self._policy == "none" or (self._policy == "errors" and not failed):
            return False
        second = self._second(record.source, now)
        if not failed and (sampled or self._policy == "sampled"):
            return self._sample(second, now)
        if second.rows < ROWS_PER_S:
            second.rows += 1
            return True
        second.rest = _add(second.rest, record)
        return False

    def rest(self, now: float, final: bool = False) -> List[CountedRequest]:
        """The counted rows of the seconds that are over (of all when `final`)."""
        rows = []
        for second in self._sources.values():
            if second.rest is not None and (final or now - second.started >= 1.0):
                rows.append(second.rest)
                second.rest = None
        if len(self._sources) >= _SOURCES_MAX:
            self._sources = {name: second for name, second in self._sources.items() if now - second.started < 60.0}
        return rows

    @property
    def counting(self) -> bool:
        """Whether a counted row waits for its second to end."""
        return any(second.rest is not None for second in self._sources.values())

    def _second(self, source: str, now: float) -> _Second:
        name = source if source in self._sources or len(self._sources) < _SOURCES_MAX else _OTHERS
        second = self._sources.setdefault(name, _Second(now))
        if now - second.started >= 1.0 and second.rest is None:
            second.started, second.rows = now, 0
        return second

    def _sample(self, second: _Second, now: float) -> bool:
        if self._interval_s is None:
            return False
        if second.sampled_at is not None and now - second.sampled_at < self._interval_s:
            return False
        second.sampled_at = now
        return True


def _add(rest: Optional[CountedRequest], record: RequestRecord) -> CountedRequest:
    """One more request in a counted row: bytes summed, times averaged, names kept where all agree."""
    if rest is None:
        return CountedRequest(replace(record, request_id=""))
    known, count = rest

    def mean(so_far: int, value: int) -> int:
        return (so_far * count + value) // (count + 1)

    return CountedRequest(
        replace(
            known,
            source=known.source if known.source == record.source else _OTHERS,
            model=known.model if known.model == record.model else _OTHERS,
            version=known.version if known.version == record.version else _OTHERS,
            status=known.status if known.status == record.status else "mixed",
            error=known.error or record.error,
            input_bytes=known.input_bytes + record.input_bytes,
            batch_size=mean(known.batch_size, record.batch_size),
            queue_us=mean(known.queue_us, record.queue_us),
            compute_us=mean(known.compute_us, record.compute_us),
            total_us=mean(known.total_us, record.total_us),
        ),
        count + 1,
    )
