"""Logging: one handler for the journal, one for the store, secrets taken out before either."""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import deque
from typing import Any, Callable, Deque, Dict, Mapping, Optional, TextIO, Tuple

from edge_agent.domain.clock import rfc3339
from edge_agent.telemetry.redaction import redact

Sink = Callable[[str, str, str, str], None]  #: level, logger, code, text; must not wait

#: how many records below WARNING are remembered to show what led to an error
REMEMBERED = 200
_TEXT_MAX = 4000  #: characters of one record that are kept; a traceback fits

#: sd-daemon(3) priorities: the journal strips the prefix and stores the level
_PRIORITY = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


def _code_of(record: logging.LogRecord) -> str:
    return str(getattr(record, "code", ""))


class TextFormatter(logging.Formatter):
    """One line a record (plus its traceback); the journal already knows the time."""

    def __init__(self, journal: bool) -> None:
        super().__init__()
        self._journal = journal

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base class's name
        """The message and its code, before any traceback."""
        code = _code_of(record)
        return record.message + (f" [{code}]" if code else "")

    def format(self, record: logging.LogRecord) -> str:
        """The record as people read it, redacted."""
        said = super().format(record)
        if self._journal:
            prefix = f"<{_PRIORITY.get(record.levelno, 6)}>"
            lines = f"{record.name}: {said}".splitlines() or [""]
            return redact("\n".join(prefix + line for line in lines))
        return redact(f"{rfc3339(record.created)} {record.levelname:<7} {record.name}: {said}")


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as machines read it, redacted."""
        row: Dict[str, Any] = {
            "at": rfc3339(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "code": _code_of(record),
            "text": redact(record.getMessage()),
        }
        if record.exc_info:
            row["exception"] = redact(self.formatException(record.exc_info))
        return json.dumps(row, ensure_ascii=False)


class SinkHandler(logging.Handler):
    """Gives warnings and worse to the sink, and what led to an error with it."""

    def __init__(self, sink: Sink, remembered: int = REMEMBERED) -> None:
        super().__init__(logging.DEBUG)
        self._sink = sink
        self._ring: Deque[Tuple[str, str, str, str]] = deque(maxlen=remembered)
        self.failed = 0  #: records that the sink refused

    def emit(self, record: logging.LogRecord) -> None:
        """Keeps, or gives; an error of the sink is counted, never logged (that would come back here)."""
        try:
            row = (record.levelname.lower(), record.name, _code_of(record), self._text(record))
            if record.levelno < logging.WARNING:
                self._ring.append(row)
                return
            if record.levelno >= logging.ERROR:
                self._give_what_led_here()
            self._sink(*row)
        except (ArithmeticError, AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError):
            self.failed += 1  # a record that cannot be formatted must not break the code that logs

    def _give_what_led_here(self) -> None:
        while self._ring:
            self._sink(*self._ring.popleft())

    def _text(self, record: logging.LogRecord) -> str:
        text = record.getMessage()
        if record.exc_info:
            text += "\n" + logging.Formatter().formatException(record.exc_info)
        return redact(text)[:_TEXT_MAX]


class LogSetup:
    """The handlers that setup() added; close() takes them away again."""

    def __init__(self, handlers: Tuple[logging.Handler, ...], level_before: int) -> None:
        self._handlers = handlers
        self._level_before = level_before
        self._closed = False

    def close(self) -> None:
        """Puts the root logger back as it was; may be called twice."""
        if self._closed:
            return
        self._closed = True
        root = logging.getLogger()
        for handler in self._handlers:
            root.removeHandler(handler)
            handler.close()
        root.setLevel(self._level_before)


def setup(
    level: str = "info",
    format: str = "text",  # noqa: A002 - the name of the configuration's key
    sink: Optional[Sink] = None,
    stream: Optional[TextIO] = None,
    environ: Optional[Mapping[str, str]] = None,
) -> LogSetup:
    """Makes the root logger write to stderr as `format` ("text" or "json"), and to `sink` if there is one.

    The stream shows records from `level` on; the sink's memory of what led to an error keeps info records whatever the level.
    """
    number = _LEVELS[level.lower()]
    shown = logging.StreamHandler(sys.stderr if stream is None else stream)
    journal = _is_journal(shown.stream, os.environ if environ is None else environ)
    shown.setLevel(number)
    shown.setFormatter(JsonFormatter() if format == "json" else TextFormatter(journal))
    handlers: Tuple[logging.Handler, ...] = (shown,)
    if sink is not None:
        handlers += (SinkHandler(sink),)
    root = logging.getLogger()
    level_before = root.level
    for handler in handlers:
        root.addHandler(handler)
    root.setLevel(min(number, logging.INFO) if sink is not None else number)
    return LogSetup(handlers, level_before)


def _is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the stream is the journal's: JOURNAL_STREAM names its device and inode, and is inherited whatever stderr is."""
    try:
        status = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM", "") == f"{status.st_dev}:{status.st_ino}"
