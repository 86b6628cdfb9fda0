"""What is away for a moment, only touched, or not remembered any more changes nothing that was judged."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from edge_agent.domain.status import State
from edge_agent.serving.promotion import lineup
from edge_agent.serving.promotion.ledger import COPY_NAME, FILE_NAME
from tests.promotion_rig import ACCEPT, add_affine, kinds, shown, until
from tests.serving_rig import running

PLAIN = "max_batch_size = 8\n"
LOOKS_S = 1.0  #: ten looks at the repository


def options(tmp_path, mode="poll"):
    return {"control_mode": mode, "poll_interval_s": 0.1, "state_dir": tmp_path}


def kept(tmp_path):
    return json.loads((tmp_path / FILE_NAME).read_text())["models"]["add"]


def model_part(rig):
    return next(model for model in rig.serving.status() if model["name"] == "add")


async def shadowing(rig, repository):
    add_affine(repository, "add", 6)
    await until(lambda: kinds(rig, "add")[-1:] == [("model.shadowing", "add/6", "model.shadowing")])


async def test_the_version_that_serves_goes_on_from_memory_while_its_folder_is_away(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        await shadowing(rig, repository)
        os.rename(str(repository / "add/1"), str(repository / "add/x1"))
        await asyncio.sleep(LOOKS_S)
        assert rig.serving.lookup("add").version == "1"
        assert "shadow" in shown(rig, "add")["6"]
        os.rename(str(repository / "add/x1"), str(repository / "add/1"))
        await asyncio.sleep(LOOKS_S)
        assert rig.serving.versions("add") == ["1"]
        assert kept(tmp_path)["active"] == 1


async def test_what_serves_uncompared_says_so_and_gives_way_when_the_other_one_is_back(tmp_path, monkeypatch):
    monkeypatch.setattr(lineup, "AWAY_S", 0.0)
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        await shadowing(rig, repository)
        os.rename(str(repository / "add/1"), str(repository / "add/x1"))
        await until(lambda: rig.serving.versions("add") == ["6"])
        await until(lambda: model_part(rig)["code"] == "model.unjudged")
        assert ("model.unjudged", "add", "model.unjudged") in rig.journal.events
        assert (kept(tmp_path)["active"], kept(tmp_path)["unjudged"]) == (1, 6)
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
        await asyncio.sleep(LOOKS_S)
        os.rename(str(repository / "add/x2"), str(repository / "add/2"))
        await asyncio.sleep(LOOKS_S)
        assert rig.serving.versions("add") == ["1"]


async def test_a_touched_or_changed_config_does_not_undo_what_an_operator_took_back(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, PLAIN)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await until(lambda: rig.serving.versions("add") == ["2"])
        await rig.serving.roll_back("add")
        os.utime(str(repository / "add/config.toml"))
        await asyncio.sleep(LOOKS_S)
        assert rig.serving.versions("add") == ["1"]
        (repository / "add/config.toml").write_text("max_batch_size = 4\n")
        await until(lambda: rig.serving.lookup("add").max_batch_size == 4)
        await asyncio.sleep(LOOKS_S)
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
    for name in (FILE_NAME, COPY_NAME):
        (tmp_path / name).write_text("{")
    for _ in range(2):  # over restarts
        async with running(repository, **options(tmp_path, "explicit")) as rig:
            assert model_part(rig)["code"] == "model.promotions_lost"
            assert (_ > 0) or ("model.promotions_lost", "add", "model.promotions_lost") in rig.journal.events
    async with running(repository, **options(tmp_path, "explicit")) as rig:
        await rig.serving.promote("add", rig.serving.lookup("add").version)
        assert model_part(rig)["code"] != "model.promotions_lost"


async def test_nothing_uncompared_takes_over_while_the_version_that_serves_is_loaded_again(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        await shadowing(rig, repository)
        rig.serving.lookup("add").become(State.FAILED, "engine.unavailable", text="no memory for the moment")
        await asyncio.sleep(LOOKS_S)
        assert rig.serving.versions("add") == ["1"]
        assert (kept(tmp_path)["active"], kept(tmp_path).get("unjudged")) == (1, None)
