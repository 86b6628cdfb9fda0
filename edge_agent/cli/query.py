"""Verbs `results`, `requests`, `events`, `logs`: the rows of the database, whether the agent runs or not."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, TextIO

from edge_agent.cli.terminal import Column, write_table
from edge_agent.config.load import load_config
from edge_agent.store import queries

NAMES = ("results", "requests", "events", "logs")

#: rows printed when no --limit is given
_LIMIT = 100

Row = Dict[str, Any]


class _Question(NamedTuple):
    table: str
    ask: Callable[..., queries.Page]
    shown: List[Column]  #: what fits a terminal; json and csv have every column


def _objects(row: Row) -> str:
    found = row["objects"] if isinstance(row["objects"], list) else []
    return ", ".join("%s %s" % (item.get("label"), item.get("score")) for item in found if isinstance(item, dict)) or "-"


def _repeats(row: Row) -> str:
    return "x%d" % (row["repeated"] + 1) if row["repeated"] else ""


def _ms(name: str) -> Callable[[Row], str]:
    return lambda row: "%.1f" % (row[name] / 1000)


def _plain(name: str) -> Callable[[Row], str]:
    return lambda row: str(row[name])


_QUESTIONS = {
    "results": _Question(
        "result",
        queries.results,
        [
            Column("CAPTURED", _plain("captured_at")),
            Column("SOURCE", _plain("source")),
            Column("MODEL", lambda row: "%s/%s" % (row["model"], row["version"])),
            Column("MS", _ms("latency_us"), right=True),
            Column("OBJECTS", _objects),
        ],
    ),
    "requests": _Question(
        "request_log",
        queries.requests,
        [
            Column("RECEIVED", _plain("received_at")),
            Column("SOURCE", _plain("source")),
            Column("MODEL", lambda row: "%s/%s" % (row["model"], row["version"])),
            Column("COUNT", _plain("count"), right=True),
            Column("BATCH", _plain("batch_size"), right=True),
            Column("QUEUE MS", _ms("queue_us"), right=True),
            Column("TOTAL MS", _ms("total_us"), right=True),
            Column("STATUS", _plain("status")),
            Column("ERROR", _plain("error")),
        ],
    ),
    "events": _Question(
        "event",
        queries.events,
        [
            Column("AT", _plain("at")),
            Column("KIND", _plain("kind")),
            Column("SUBJECT", _plain("subject")),
            Column("ACTOR", _plain("actor")),
            Column("CODE", _plain("code")),
            Column("TEXT", _plain("text")),
        ],
    ),
    "logs": _Question(
        "log",
        queries.logs,
        [
            Column("AT", _plain("at")),
            Column("LEVEL", _plain("level")),
            Column("LOGGER", _plain("logger")),
            Column("", _repeats),
            Column("TEXT", _plain("text")),
        ],
    ),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Bounds and form."""
    parser.add_argument("--since", default="", metavar="TIME", help="15m, 1h, 2d (ago) or RFC 3339")
    parser.add_argument("--until", default="", metavar="TIME", help="likewise")
    parser.add_argument("--source", default="", metavar="S", help="camera/NAME, http/NAME, mqtt/MODEL; a subject; a logger")
    parser.add_argument("--model", default="", metavar="M", help="only this model's")
    parser.add_argument("--limit", type=_count, default=_LIMIT, metavar="N", help="rows at most, 0 for all (%(default)s)")
    parser.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="how rows are printed (%(default)s)"
    )


def run(args: argparse.Namespace) -> int:
    """Print the rows that were asked for."""
    config = load_config(args.config, os.environ)
    question = _QUESTIONS[args.verb]
    path = config.agent.state_dir / config.store.path
    columns = queries.columns(path, question.table)
    rows = _rows(question, path, args)
    if args.format == "json":
        _write_json(sys.stdout, rows)
    elif args.format == "csv":
        _write_csv(sys.stdout, columns, rows)
    else:
        write_table(sys.stdout, question.shown, rows)
    return 0


def _rows(question: _Question, path: Path, args: argparse.Namespace) -> Iterator[Row]:
    """Page by page, each with a connection of its own: whoever reads slowly holds nothing up."""
    left, cursor = args.limit or sys.maxsize, ""
    while left > 0:
        page = min(left, queries.LIMIT_MAX)
        rows, following = question.ask(path, args.since, args.until, args.source, args.model, page, cursor)
        yield from rows
        if following is None:
            return
        left, cursor = left - len(rows), following


def _write_json(out: TextIO, rows: Iterator[Row]) -> None:
    separator = "["
    for row in rows:
        out.write(separator + "\n" + json.dumps(row, ensure_ascii=False))
        separator = ","
    out.write("[]\n" if separator == "[" else "\n]\n")


def _write_csv(out: TextIO, columns: List[str], rows: Iterator[Row]) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in columns])


def _cell(value: Any) -> Any:
    if isinstance(value, (dict, list, bool)):
        return json.dumps(value, ensure_ascii=False)
    return value


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("%r is not a number of rows" % text)
    return int(text)
