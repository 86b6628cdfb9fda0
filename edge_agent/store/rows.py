"""Values as they lie in the file: clean text, plain JSON, integers that fit. Pure."""

from __future__ import annotations

import json
import math
from typing import Any, Mapping, Tuple

from edge_agent.domain.results import RequestRecord, Result
from edge_agent.telemetry.redaction import redact

#: characters kept of a text that somebody else chose the length of
TEXT_MAX = 4000
_INT_MAX = 2**63 - 1


def clean(text: str, longest: int = TEXT_MAX) -> str:
    """Text that SQLite, its shell and JSON all take: no NUL (the shell stops there), no lone surrogates, not endless."""
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def shown(text: str) -> str:
    """Clean text without the secrets that errors of others may quote."""
    return clean(redact(text)) if text else text


def integer(value: float) -> int:
    """A whole number that fits SQLite's 64 bits."""
    return max(-_INT_MAX, min(_INT_MAX, int(value)))


def as_json(value: Any) -> str:
    """Compact JSON; NaN and infinity are null.

    Raises:
        TypeError: something in it has no JSON form.
        ValueError: it contains itself.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:
        text = json.dumps(_finite(value), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return clean(text, longest=len(text) + 1)


def _finite(value: Any, depth: int = 0) -> Any:
    if depth > 100:
        raise ValueError("nested deeper than 100 levels")
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item, depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item, depth + 1) for item in value]
    return value


def result_row(result: Result, seq: int, uid: str) -> Tuple[Any, ...]:
    """The values of table `result` in the order of its columns; raises as as_json does."""
    captured = result.captured
    return (
        seq,
        uid,
        clean(result.source),
        clean(result.model),
        clean(result.version),
        captured.at,
        None,
        bool(captured.clock_synced),
        captured.boot_id,
        integer(captured.monotonic_ns),
        integer(result.width),
        integer(result.height),
        as_json([found.as_json() for found in result.objects]),
        result.media_id,
        as_json(dict(result.stages_us)),
        integer(result.latency_us),
        clean(result.request_id),
    )


def request_row(record: RequestRecord, count: int) -> Tuple[Any, ...]:
    """The values of table `request_log` in the order of its columns, without `seq`."""
    return (
        clean(record.request_id),
        clean(record.model),
        clean(record.version),
        clean(record.source),
        record.received_at,
        None,
        integer(record.input_bytes),
        integer(record.batch_size),
        integer(record.queue_us),
        integer(record.compute_us),
        integer(record.total_us),
        clean(record.status),
        shown(record.error),
        count,
    )
