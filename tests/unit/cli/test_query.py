from __future__ import annotations

import asyncio
import csv
import io
import json
import subprocess
import sys

import pytest

from edge_agent.cli.main import main
from edge_agent.domain.clock import Clock
from edge_agent.domain.results import Detection, Instant, RequestRecord, Result
from edge_agent.store.store import Store, StoreOptions
from edge_agent.store.tables import Result as ResultTable


@pytest.fixture
def config(tmp_path):
    """A configuration whose database lies in its own folder; nothing has run yet."""
    path = tmp_path / "edge-agent.toml"
    path.write_text('config_version = 1\n[agent]\nstate_dir = "%s"\n' % (tmp_path / "state"))
    return path


def _result(n, at="2026-01-01T10:00:00.000Z", source="camera/dock"):
    face = Detection("人脸", 0.5, (1, 2, 3, 4))
    return Result(source, "face", "1", Instant(at, True, "b", n), 640, 480, (face,), {"queue": 5}, 1500, "r-%d" % n)


async def _fill(path, count):
    clock = Clock()
    store = Store(StoreOptions(path, "box"), clock)
    await store.start()
    for n in range(1, count + 1):
        await store.add_result(_result(n))
    await store.add_result(_result(count + 1, clock.now(), "http/door"))
    store.request_done(RequestRecord("id", "face", "1", "http/door", clock.now(), 10, 1, 2, 3, 4000, "ok"))
    store.event("camera.down", subject="dock", code="camera.unreachable", args={"source": "x"}, text="gone")
    for text in ("twice", "twice", "a\x1b[31mred\nline"):
        store.log_row("warning", "edge_agent.cameras", "", text)
    await store.stop()


@pytest.fixture
async def filled(config, tmp_path):
    await _fill(tmp_path / "state" / "edge-agent.db", 3)
    return config


@pytest.fixture
def ask(filled, capsys):
    def ask(*line):
        assert main([*line, "-c", str(filled)]) == 0
        return capsys.readouterr().out

    return ask


def test_json_is_an_array_of_the_rows_newest_first_by_the_real_command(filled):
    command = [sys.executable, "-m", "edge_agent", "results", "-c", str(filled), "--format", "json"]
    done = subprocess.run(command, capture_output=True, timeout=20, check=True)
    rows = json.loads(done.stdout.decode())
    assert [row["seq"] for row in rows] == [4, 3, 2, 1]
    assert rows[0]["objects"] == [{"label": "人脸", "score": 0.5, "box": [1, 2, 3, 4]}]


@pytest.mark.parametrize(
    ("options", "seqs"),
    [
        (["--since", "1h"], [4]),
        (["--until", "2026-01-01T10:00:00Z"], [3, 2, 1]),
        (["--source", "http/door"], [4]),
        (["--model", "other"], []),
        (["--limit", "2"], [4, 3]),
        (["--limit", "0"], [4, 3, 2, 1]),
    ],
)
def test_options_narrow_the_rows(ask, options, seqs):
    assert [row["seq"] for row in json.loads(ask("results", "--format", "json", *options))] == seqs


def test_csv_has_the_keys_as_header_and_json_as_text(ask):
    rows = list(csv.reader(io.StringIO(ask("results", "--format", "csv"))))
    assert rows[0] == ResultTable._meta.sorted_field_names
    first = dict(zip(*rows[:2]))
    assert json.loads(first["objects"])[0]["label"] == "人脸"
    assert (first["clock_synced"], first["captured_at_raw"]) == ("true", "")


def test_no_rows_are_an_empty_array_and_a_header_alone(ask):
    assert json.loads(ask("results", "--format", "json", "--model", "none")) == []
    assert ask("results", "--format", "csv", "--model", "none").splitlines() == [",".join(ResultTable._meta.sorted_field_names)]
    assert ask("results", "--model", "none").split() == ["CAPTURED", "SOURCE", "MODEL", "MS", "OBJECTS"]


@pytest.mark.parametrize(("verb", "key"), [("requests", "request_id"), ("events", "kind"), ("logs", "logger")])
def test_the_other_verbs_give_their_tables(ask, verb, key):
    assert key in json.loads(ask(verb, "--format", "json"))[0]
    assert key in ask(verb, "--format", "csv").splitlines()[0].split(",")
    assert len(ask(verb).splitlines()) >= 2


def test_a_table_is_aligned_and_shows_no_control_characters(ask):
    lines = ask("logs").splitlines()
    assert len(lines) == 3
    assert "\\x1b[31mred\\nline" in lines[1]
    assert lines[1].index("edge_agent.cameras") == lines[2].index("edge_agent.cameras") == lines[0].index("LOGGER")
    assert "x2" in lines[2]
    assert ask("results").splitlines()[1].endswith("人脸 0.5")


async def test_more_rows_than_a_page_come_out_whole(config, tmp_path, capsys):
    store = Store(StoreOptions(tmp_path / "state" / "edge-agent.db", "box"), Clock())
    await store.start()
    await asyncio.gather(*(store.add_result(_result(n)) for n in range(2500)))
    await store.stop()
    for limit, count in (("0", 2500), ("1001", 1001)):
        assert main(["results", "-c", str(config), "--format", "json", "--limit", limit]) == 0
        seqs = [row["seq"] for row in json.loads(capsys.readouterr().out)]
        assert seqs == list(range(2500, 2500 - count, -1))
    assert main(["results", "-c", str(config), "--limit", "0"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2501


async def test_rows_can_be_asked_for_while_the_agent_writes(config, tmp_path, capsys):
    store = Store(StoreOptions(tmp_path / "state" / "edge-agent.db", "box"), Clock())
    await store.start()
    await store.add_result(_result(1))
    code = main(["results", "-c", str(config), "--format", "json"])
    await store.stop()
    assert code == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["results", "--since", "soon"], "since: 'soon' is no moment"),
        (["logs", "--model", "face"], "model: log lines name no model"),
    ],
)
def test_bad_options_are_exit_code_1_with_the_reason(filled, capsys, line, words):
    assert main([*line, "-c", str(filled)]) == 1
    assert words in capsys.readouterr().err


def test_before_the_first_run_there_is_no_database(config, capsys):
    assert main(["results", "-c", str(config)]) == 1
    assert "there is no database" in capsys.readouterr().err


def test_a_broken_configuration_is_exit_code_78(tmp_path, capsys):
    broken = tmp_path / "broken.toml"
    broken.write_text("config_version = 1\n[agent]\nstate_dirr = 'x'\n")
    assert main(["results", "-c", str(broken)]) == 78
    assert "agent.state_dirr" in capsys.readouterr().err
