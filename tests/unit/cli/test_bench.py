from __future__ import annotations

import json

import pytest

from edge_agent.cli.main import main
from tests.agent_process import AgentProcess
from tests.serving_rig import add_model


@pytest.fixture(scope="module")
def agent(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bench")
    models = folder / "models"
    add_model(models, "one", "add_one.onnx", "max_batch_size = 8\n")
    add_model(models, "any", "add_one_any.onnx")
    add_model(models, "text", "same_text.onnx")
    add_model(models, "cached", "add_one.onnx", "max_batch_size = 8\n[response_cache]\nenable = true\n")
    with AgentProcess(folder, models) as running:
        yield running


def _bench(agent, capsys, *arguments):
    code = main(["-c", str(agent.config), "bench", *arguments, "--seconds", "0.3"])
    out, err = capsys.readouterr()
    return code, out, err


def _rows(agent, capsys, *arguments):
    code, out, err = _bench(agent, capsys, *arguments, "--format", "json")
    assert code == 0, err
    return json.loads(out)


def test_closed_loop_says_rate_percentiles_and_where_the_time_went(agent, capsys):
    one, four = _rows(agent, capsys, "one", "--concurrency", "1,4")
    assert (one["clients"], four["clients"]) == (1, 4)
    for row in (one, four):
        assert row["errors"] == 0
        assert row["requests"] > 10
        assert row["per_s"] == pytest.approx(row["requests"] / 0.3, rel=0.5)
        assert 0 < row["p50_ms"] <= row["p90_ms"] <= row["p95_ms"] <= row["p99_ms"]
        assert 0 < sum(row["stages_ms"].values()) < row["mean_ms"]
    assert one["mean_batch"] == 1.0
    assert 1.0 <= four["mean_batch"] <= 4.0
    assert sum(one["batch_reasons"].values()) == one["requests"]


def test_open_loop_offers_the_rate_that_was_asked_for(agent, capsys):
    (row,) = _rows(agent, capsys, "one", "--rate", "100")
    assert row["mode"] == "open"
    assert 10 <= row["requests"] <= 60
    assert row["errors"] == 0


def test_the_table_has_a_line_for_each_load(agent, capsys):
    code, out, _ = _bench(agent, capsys, "one", "--concurrency", "2", "--rate", "50")
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split()[:2] == ["LOAD", "REQ/S"]
    assert [line.split("  ")[0] for line in lines[1:]] == ["2 clients", "50/s offered"]


def test_answers_of_the_cache_are_counted_so_that_they_are_not_taken_for_the_model_s(agent, capsys):
    (row,) = _rows(agent, capsys, "cached", "--concurrency", "1")
    assert 0 < row["cached"] <= row["requests"]
    (row,) = _rows(agent, capsys, "one", "--concurrency", "1")
    assert row["cached"] == 0
    code, out, _ = _bench(agent, capsys, "one", "--concurrency", "1")
    assert (code, "CACHED" in out.splitlines()[0]) == (0, True)


def test_another_address_can_be_given(agent, capsys):
    code = main(["bench", "one", "--url", agent.base, "--concurrency", "1", "--seconds", "0.2"])
    assert code == 0, capsys.readouterr()


def test_a_variable_shape_has_to_be_given(agent, capsys):
    code, _, err = _bench(agent, capsys, "any", "--concurrency", "1")
    assert code == 1
    assert "give it with --shape" in err
    name = err.split("'")[1]
    dims = err.split("[")[1].split("]")[0].split(",")
    (row,) = _rows(agent, capsys, "any", "--concurrency", "1", "--shape", "%s=%s" % (name, ",".join("2" for _ in dims)))
    assert row["errors"] == 0


def test_texts_and_zeros_can_be_sent(agent, capsys):
    for data in ("zero", "random"):
        (row,) = _rows(agent, capsys, "text", "--concurrency", "1", "--data", data, *_shape_of(agent, "text"))
        assert row["errors"] == 0
        assert row["requests"] > 5


def _shape_of(agent, model):
    inputs = agent.json("/v2/models/%s" % model)["inputs"]
    return [x for i in inputs for x in ("--shape", "%s=%s" % (i["name"], ",".join(str(abs(d)) for d in i["shape"])))]


def test_the_agents_own_words_for_what_it_refuses(agent, capsys):
    code, _, err = _bench(agent, capsys, "none-such")
    assert code == 1
    assert "none-such" in err
    code, _, err = _bench(agent, capsys, "one", "--shape", "x=1,3,5,7,9")
    assert code == 1
    assert err.startswith("edge-agent: ")


def test_nobody_there_is_said(tmp_path, capsys):
    code = main(["bench", "one", "--url", "http://127.0.0.1:9"])
    assert code == 75
    assert "no agent answers" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [["--concurrency", "0"], ["--concurrency", "a"], ["--concurrency", "1000"], ["--rate", "-1"], ["--shape", "x"]]
)
def test_numbers_that_make_no_sense_are_usage_errors(wrong, capsys):
    with pytest.raises(SystemExit) as left:
        main(["bench", "one", *wrong])
    assert left.value.code == 2
    assert wrong[0] in capsys.readouterr().err
