"""What is away for a moment, only touched, or not remembered any more changes nothing that was judged."""

from __future__ import annotations

import asyncio
import json
import os

import numpy
import pytest

from edge_agent.serving.promotion import compared, content
from edge_agent.serving.promotion.absence import AWAY_S
from edge_agent.serving.promotion.ledger import COPY_NAME, FILE_NAME
from tests.promotion_rig import (
    ACCEPT,
    Ahead,
    add_affine,
    add_python,
    ask_until,
    kinds,
    looked,
    mend,
    rows,
    shown,
    spoil,
    until,
)
from tests.serving_rig import running

PLAIN = "max_batch_size = 8\n"
#: to serve, not to be compared, which happens at another priority
NO_ROOM = "if os.path.exists(%r) and os.nice(0) == %d: raise MemoryError('none for the moment')"


def options(tmp_path, mode="poll"):
    return {"control_mode": mode, "poll_interval_s": 0.1, "state_dir": tmp_path}


def kept(tmp_path, name="add"):
    return json.loads((tmp_path / FILE_NAME).read_text())["models"][name]


def serving(tmp_path):
    return kept(tmp_path)["active"], kept(tmp_path).get("unjudged")


def model_part(rig, name="add"):
    return next(model for model in rig.serving.status() if model["name"] == name)


def put_forward(rig, seconds):
    """For what is waited for; all else keeps its time."""
    clock = rig.serving._lineup.absences.clock = Ahead()
    clock.ahead_s = seconds


async def shadowing(rig, repository):
    add_affine(repository, "add", 6)
    await until(lambda: kinds(rig, "add")[-1:] == [("model.shadowing", "add/6", "model.shadowing")])


async def test_the_version_that_serves_goes_on_from_memory_while_its_folder_is_away(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        await shadowing(rig, repository)
        os.rename(str(repository / "add/1"), str(repository / "add/x1"))
        await looked(rig)
        assert rig.serving.lookup("add").version == "1"
        assert "shadow" in shown(rig, "add")["6"]
        os.rename(str(repository / "add/x1"), str(repository / "add/1"))
        await looked(rig)
        assert rig.serving.versions("add") == ["1"]
        assert serving(tmp_path) == (1, None)


async def test_what_serves_uncompared_says_so_and_gives_way_when_the_other_one_is_back(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        await shadowing(rig, repository)
        os.rename(str(repository / "add/1"), str(repository / "add/x1"))
        await looked(rig)
        assert rig.serving.versions("add") == ["1"]
        put_forward(rig, AWAY_S)
        await until(lambda: rig.serving.versions("add") == ["6"])
        await until(lambda: model_part(rig)["code"] == "model.unjudged")
        assert ("model.unjudged", "add", "model.unjudged") in rig.journal.events
        await until(lambda: serving(tmp_path) == (1, 6))
        os.rename(str(repository / "add/x1"), str(repository / "add/1"))
        await until(lambda: rig.serving.versions("add") == ["1"], tell=rig.serving.status)
        await until(lambda: "shadow" in shown(rig, "add").get("6", {}))
        assert model_part(rig)["code"] != "model.unjudged"


async def test_a_version_that_was_taken_back_stays_so_when_its_folder_was_away(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, PLAIN)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await until(lambda: rig.serving.versions("add") == ["2"])
        await rig.serving.roll_back("add")
        os.rename(str(repository / "add/2"), str(repository / "add/x2"))
        await looked(rig)
        os.rename(str(repository / "add/x2"), str(repository / "add/2"))
        await looked(rig)
        assert rig.serving.versions("add") == ["1"]


async def test_a_candidate_that_is_refused_while_its_folder_is_away_stays_so(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, "explicit"), load=["add"]) as rig:
        add_affine(repository, "add", 6)
        await rig.serving.load_model("add")
        os.rename(str(repository / "add/6"), str(repository / "add/x6"))
        await rig.serving.roll_back("add")
        os.rename(str(repository / "add/x6"), str(repository / "add/6"))
        await rig.serving.load_model("add")
        assert shown(rig, "add")["6"]["code"] == "model.shadow_rejected"
        assert ":" in kept(tmp_path)["refused"]["6"]["fingerprint"]  # by now it was read
        add_affine(repository, "add", 6, offset=1.0001)
        await rig.serving.load_model("add")
        assert "shadow" in shown(rig, "add")["6"]


async def test_a_touched_or_changed_config_does_not_undo_what_an_operator_took_back(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, PLAIN)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await until(lambda: rig.serving.versions("add") == ["2"])
        await rig.serving.roll_back("add")
        os.utime(str(repository / "add/config.toml"))
        await looked(rig)
        assert rig.serving.versions("add") == ["1"]
        (repository / "add/config.toml").write_text("max_batch_size = 4\n")
        await until(lambda: rig.serving.lookup("add").max_batch_size == 4)
        await looked(rig)
        assert rig.serving.versions("add") == ["1"]
        add_affine(repository, "add", 2, offset=3.0)
        await until(lambda: rig.serving.versions("add") == ["2"])


@pytest.mark.parametrize("accept", [ACCEPT, PLAIN])
async def test_a_damaged_record_leaves_what_was_taken_back_and_where_both_are_lost_that_is_seen(tmp_path, accept):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, accept)
    async with running(repository, **options(tmp_path, "explicit")) as rig:
        add_affine(repository, "add", 2)
        await rig.serving.load_model("add")
        if accept == ACCEPT:
            await rig.serving.promote("add")
        await rig.serving.roll_back("add")
    (tmp_path / FILE_NAME).write_text("{")
    async with running(repository, **options(tmp_path, "explicit")) as rig:
        assert rig.serving.lookup("add").version == "1"
        await rig.serving.load_model("add")
    lose(tmp_path)
    for _ in range(2):  # over restarts
        async with running(repository, **options(tmp_path, "explicit")) as rig:
            assert model_part(rig)["code"] == "model.promotions_lost"
            assert (_ > 0) or ("model.promotions_lost", "add", "model.promotions_lost") in rig.journal.events
    async with running(repository, **options(tmp_path, "explicit")) as rig:
        await rig.serving.promote("add", rig.serving.lookup("add").version)
        assert model_part(rig)["code"] != "model.promotions_lost"


def lose(tmp_path):
    for name in (FILE_NAME, COPY_NAME):
        (tmp_path / name).write_text("{")


async def test_a_model_that_comes_after_the_record_was_lost_is_not_in_doubt(tmp_path):
    repository = tmp_path / "models"
    for version in (1, 2):
        add_affine(repository, "add", version, PLAIN)
    lose(tmp_path)
    async with running(repository, **options(tmp_path)) as rig:
        await until(lambda: model_part(rig)["code"] == "model.promotions_lost")
        for version in (1, 2):
            add_affine(repository, "new", version, PLAIN)
        await until(lambda: "new" in rig.serving.names() and rig.serving.is_ready("new"))
        await looked(rig)
        assert model_part(rig, "new")["code"] == ""
        assert "unsure" not in kept(tmp_path, "new")


async def lost_for_now(rig, repository):
    """The host of the version that serves dies, and it cannot be loaded again, twice."""
    spoilt = spoil(repository / "add/1/model.onnx")
    await rig.kill_host("cpu")
    failed = ("model.failed", "add/1", "model.load_failed")
    await until(lambda: rig.journal.events.count(failed) >= 2, tell=lambda: rig.journal.events)
    return spoilt


async def test_nothing_uncompared_takes_over_while_the_version_that_serves_is_loaded_again(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        await shadowing(rig, repository)
        spoilt = await lost_for_now(rig, repository)
        await looked(rig)
        assert rig.serving.versions("add") == ["1"]
        assert not rig.serving.is_ready("add")
        assert serving(tmp_path) == (1, None)
        mend(repository / "add/1/model.onnx", spoilt)
        await until(lambda: rig.serving.is_ready("add"), tell=rig.serving.status)
        assert rig.serving.lookup("add").version == "1"
        assert "shadow" in shown(rig, "add")["6"]


async def test_after_five_minutes_something_uncompared_takes_over_until_the_other_one_is_back(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        await shadowing(rig, repository)
        spoilt = await lost_for_now(rig, repository)
        put_forward(rig, AWAY_S)
        await until(lambda: rig.serving.is_ready("add"), tell=rig.serving.status)
        assert rig.serving.lookup("add").version == "6"
        await until(lambda: serving(tmp_path) == (1, 6))
        mend(repository / "add/1/model.onnx", spoilt)
        await until(lambda: rig.serving.versions("add") == ["1"], tell=rig.serving.status)
        await until(lambda: serving(tmp_path) == (1, None))


@pytest.mark.parametrize("mode", ["explicit", "none"])
async def test_the_five_minutes_end_also_where_nobody_looks_at_the_repository(tmp_path, mode):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, "explicit")):
        pass
    add_affine(repository, "add", 6)
    async with running(repository, **options(tmp_path, mode)) as rig:
        await until(lambda: "shadow" in shown(rig, "add").get("6", {}))
        rig.serving._lineup.absences.wait_s = 1.0
        add_affine(repository, "add", 7)  # nobody has asked for it yet
        spoilt = await lost_for_now(rig, repository)
        await until(lambda: rig.serving.is_ready("add"), tell=rig.serving.status)
        assert rig.serving.lookup("add").version == "6"
        await until(lambda: serving(tmp_path) == (1, 6))
        mend(repository / "add/1/model.onnx", spoilt)
        await until(lambda: rig.serving.lookup("add").version == "1", tell=rig.serving.status)
        await until(lambda: rig.serving.versions("add") == ["1"], tell=rig.serving.status)
        await until(lambda: serving(tmp_path) == (1, None))
        assert "7" not in shown(rig, "add")
        await until(lambda: "shadow" in shown(rig, "add").get("6", {}))


@pytest.mark.parametrize("mode", ["explicit", "none"])
async def test_what_stood_in_goes_when_the_other_one_is_loaded_again(tmp_path, mode):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, "explicit")):
        pass
    add_affine(repository, "add", 6)
    spoilt = spoil(repository / "add/1/model.onnx")
    async with running(repository, **options(tmp_path, mode)) as rig:
        assert (rig.serving.lookup("add").version, serving(tmp_path)) == ("6", (1, 6))
        mend(repository / "add/1/model.onnx", spoilt)
        await rig.serving._control.again("add", "1")
        assert rig.serving.versions("add") == ["1"]
        assert serving(tmp_path) == (1, None)
        assert "shadow" in shown(rig, "add")["6"]


async def test_of_two_versions_that_are_up_after_one_was_loaded_again_the_policy_says_which_goes(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, PLAIN)
    async with running(repository, **options(tmp_path, "explicit")) as rig:
        add_affine(repository, "add", 2)
        spoilt = spoil(repository / "add/2/model.onnx")
        with pytest.raises(Exception, match="failed to load"):
            await rig.serving.load_model("add")
        assert rig.serving.versions("add") == ["1", "2"]
        mend(repository / "add/2/model.onnx", spoilt)
        await rig.serving._control.again("add", "2")
        assert rig.serving.versions("add") == ["2"]
        assert (kept(tmp_path)["active"], kept(tmp_path)["previous"]) == (2, 1)


async def passed_twice(rig, repository, gate):
    """Version 2 cannot be loaded to serve, is compared once more, and waits for its time to come."""
    add_python(repository, "add", 2, ACCEPT, load=NO_ROOM % (str(gate), os.nice(0)))
    gate.touch()
    if rig.serving._section.control_mode == "explicit":
        await rig.serving.load_model("add")
    await until(lambda: "shadow" in shown(rig, "add").get("2", {}))
    await ask_until(rig, "add", lambda: waiting(rig))
    gate.unlink()
    await until(lambda: "shadow" in shown(rig, "add").get("2", {}))
    await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["compared"] == 20)
    await until(lambda: "verdict:add" not in {task.get_name() for task in asyncio.all_tasks()})
    assert waiting(rig)


def waiting(rig):
    return "add" in rig.serving._control._promotion._waiting


@pytest.mark.parametrize("mode", ["poll", "explicit"])
async def test_a_version_that_passed_is_swapped_in_though_the_other_one_is_away_when_its_time_comes(
    tmp_path, monkeypatch, mode
):
    monkeypatch.setattr(compared, "_PAUSES_S", (3.0,))
    repository = tmp_path / "models"
    add_python(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, mode)) as rig:
        await passed_twice(rig, repository, tmp_path / "gate")
        os.rename(str(repository / "add/1"), str(repository / "add/x1"))
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2", within_s=20.0)
        await until(lambda: serving(tmp_path) == (2, None))


async def test_a_version_that_passed_for_nothing_is_compared_anew(tmp_path, monkeypatch):
    monkeypatch.setattr(compared, "_PAUSES_S", (3.0,))
    repository = tmp_path / "models"
    add_python(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, "explicit")) as rig:
        await passed_twice(rig, repository, tmp_path / "gate")
        os.rename(str(repository / "add/2"), str(repository / "add/x2"))
        await until(lambda: not waiting(rig))
        os.rename(str(repository / "add/x2"), str(repository / "add/2"))
        await rig.serving.load_model("add")
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2", within_s=20.0)


@pytest.mark.parametrize("what", ["add", "add/config.toml"])
async def test_a_version_that_passed_waits_on_while_its_model_cannot_be_read(tmp_path, monkeypatch, caplog, what):
    monkeypatch.setattr(compared, "_PAUSES_S", (1.0,))
    repository, gate, off = tmp_path / "models", tmp_path / "gate", tmp_path / "off"
    add_python(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, "explicit")) as rig:
        add_python(repository, "add", 2, ACCEPT, load=NO_ROOM % (str(gate), os.nice(0)))
        gate.touch()
        await rig.serving.load_model("add")
        await ask_until(rig, "add", lambda: waiting(rig))
        gate.unlink()
        os.rename(str(repository / what), str(off))
        if what != "add":
            (repository / what).write_text("no = toml = at all")
        said = "no repository has a model"
        await until(lambda: said in caplog.text or rig.serving._control._promotion._waiting["add"].tries > 1)
        assert rig.serving.lookup("add").version == "1"
        os.replace(str(off), str(repository / what))
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")


async def test_only_files_of_versions_that_were_refused_are_read(tmp_path, monkeypatch):
    read, real = [], content._read
    monkeypatch.setattr(content, "_read", lambda mark: (read.append(os.path.relpath(mark[0], str(tmp_path))), real(mark))[1])
    repository = tmp_path / "models"
    for version in range(1, 8):
        add_affine(repository, "add", version, PLAIN)
    async with running(repository, **options(tmp_path)) as rig:
        await looked(rig)
        assert read == []
        await rig.serving.promote("add", "6")
        assert sorted(set(read)) == ["models/add/7/model.onnx", "models/add/config.toml"]
        read.clear()
        await looked(rig)
        assert read == []
    async with running(repository, **options(tmp_path)) as rig:
        await looked(rig)
        assert rig.serving.lookup("add").version == "6"
        assert read == []
        os.utime(str(repository / "add/7/model.onnx"))
        await looked(rig)
        assert rig.serving.versions("add") == ["6"]
        assert sorted(set(read)) == ["models/add/7/model.onnx", "models/add/config.toml"]
        assert (await rig.ask("add", rows())).tolist() == (rows() + numpy.float32(1)).tolist()
