from __future__ import annotations

import io
import json
import logging
import os
from pathlib import Path
from typing import Iterator, List, Tuple

import pytest

from edge_agent.telemetry import logs

Row = Tuple[str, str, str, str]


class Journal:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.rows: List[Row] = []

    def __call__(self, level: str, logger: str, code: str, text: str) -> None:
        self.rows.append((level, logger, code, text))


@pytest.fixture
def sink() -> Journal:
    return Journal()


@pytest.fixture
def stream() -> io.StringIO:
    return io.StringIO()


@pytest.fixture(autouse=True)
def _root_logger_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = (root.level, list(root.handlers))
    yield
    assert (root.level, list(root.handlers)) == before


def test_text_has_time_level_logger_and_code(stream: io.StringIO) -> None:
    handle = logs.setup("info", "text", stream=stream)
    logging.getLogger("camera.dock").warning("gone for %d s", 5, extra={"code": "camera.stalled"})
    handle.close()
    line = stream.getvalue()
    assert line.endswith("WARNING camera.dock: gone for 5 s [camera.stalled]\n")
    assert line[4] == "-"
    assert line[:24].endswith("Z")


def test_json_is_one_object_a_line(stream: io.StringIO) -> None:
    handle = logs.setup("info", "json", stream=stream)
    logging.getLogger("a").info("two\nlines", extra={"code": "x.y"})
    try:
        raise ValueError("odd")
    except ValueError:
        logging.getLogger("a").exception("failed")
    handle.close()
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["level"], first["logger"], first["code"], first["text"]) == ("info", "a", "x.y", "two\nlines")
    assert "ValueError: odd" in second["exception"]


def test_the_journal_gets_a_priority_and_no_time(tmp_path: Path) -> None:
    with open(tmp_path / "journal", "w+", encoding="utf-8") as journal:
        status = os.fstat(journal.fileno())
        handle = logs.setup("info", stream=journal, environ={"JOURNAL_STREAM": f"{status.st_dev}:{status.st_ino}"})
        logging.getLogger("agent").error("bad\nthing")
        handle.close()
        journal.seek(0)
        assert journal.read() == "<3>agent: bad\n<3>thing\n"


def test_an_inherited_journal_stream_of_another_file_does_not_count(tmp_path: Path) -> None:
    with open(tmp_path / "plain", "w+", encoding="utf-8") as plain:
        handle = logs.setup("info", stream=plain, environ={"JOURNAL_STREAM": "1:2"})
        logging.getLogger("agent").error("bad")
        handle.close()
        plain.seek(0)
        assert not plain.read().startswith("<")


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_reach_neither_the_stream_nor_the_sink(form: str, stream: io.StringIO, sink: Journal) -> None:
    handle = logs.setup("info", form, sink, stream)
    logging.getLogger("c").warning("opening %s with Bearer %s", "rtsp://u:geheim@h/", "abcdef123")
    try:
        raise OSError("rtsp://u:geheim@h/ refused")
    except OSError:
        logging.getLogger("c").exception("no")
    handle.close()
    everything = stream.getvalue() + repr(sink.rows)
    assert "geheim" not in everything
    assert "abcdef123" not in everything
    assert "rtsp://***@h/" in everything


def test_the_sink_gets_warnings_and_no_more_until_an_error(stream: io.StringIO, sink: Journal) -> None:
    handle = logs.setup("warning", "text", sink, stream)
    logger = logging.getLogger("agent")
    logger.info("first step")
    logger.warning("hm", extra={"code": "clock.jump"})
    assert sink.rows == [("warning", "agent", "clock.jump", "hm")]
    logger.info("second step")
    logger.error("broken")
    handle.close()
    assert [row[3] for row in sink.rows] == ["hm", "first step", "second step", "broken"]
    assert "step" not in stream.getvalue()


def test_what_led_to_an_error_is_told_once_and_bounded(stream: io.StringIO, sink: Journal) -> None:
    handle = logs.setup("error", "text", sink, stream)
    logger = logging.getLogger("agent")
    for number in range(logs.REMEMBERED + 50):
        logger.info("step %d", number)
    logger.error("one")
    logger.error("two")
    handle.close()
    assert len(sink.rows) == logs.REMEMBERED + 2
    assert sink.rows[0][3] == "step 50"
    assert [row[3] for row in sink.rows[-2:]] == ["one", "two"]


def test_a_sink_that_fails_does_not_break_the_caller(stream: io.StringIO) -> None:
    def broken(level: str, logger: str, code: str, text: str) -> None:
        raise RuntimeError("store is closed")

    handle = logs.setup("info", "text", broken, stream)
    logging.getLogger("agent").warning("still here")
    handle.close()
    assert "still here" in stream.getvalue()


def test_close_can_be_called_twice(stream: io.StringIO) -> None:
    handle = logs.setup("debug", "text", stream=stream)
    handle.close()
    handle.close()
    logging.getLogger("agent").warning("after")
    assert stream.getvalue() == ""


def test_an_unknown_level_is_refused(stream: io.StringIO) -> None:
    with pytest.raises(KeyError):
        logs.setup("loud", stream=stream)
