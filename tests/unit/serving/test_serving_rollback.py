"""What went wrong is taken back: by itself after a crash loop, or by hand; and versions are promoted by hand."""

from __future__ import annotations

import asyncio
import json
import shutil

import pytest

from edge_agent import errors
from edge_agent.serving.promotion.ledger import FILE_NAME
from tests.promotion_rig import ACCEPT, add_affine, add_python, add_tricks_version, ask_until, kinds, rows, shown, until
from tests.serving_rig import add_tricks, label, picture, running

PLAIN = "max_batch_size = 8\n"


def options(tmp_path, mode="explicit", **more):
    return {"control_mode": mode, "poll_interval_s": 0.1, "state_dir": tmp_path, **more}


def kept(tmp_path):
    return json.loads((tmp_path / FILE_NAME).read_text())["models"]


async def see(rig, value):
    return label(await rig.ask("eye", picture(value), names=("image",), decode=True))


async def crash(rig, value=3):
    """Asks until the version is given up; answers how many requests failed."""
    failed = 0
    while shown(rig, "eye")["2"]["state"] == "ok" or shown(rig, "eye")["2"]["code"] == "model.host_down":
        try:
            await see(rig, value)
        except errors.EdgeAgentError:
            failed += 1
        await asyncio.sleep(0.05)
    return failed


@pytest.mark.parametrize("config", [PLAIN, PLAIN + ACCEPT])
async def test_a_version_that_ends_its_host_thrice_gives_way_to_the_one_before_it_over_restarts(tmp_path, config):
    repository = tmp_path / "models"
    add_tricks_version(repository, "eye", 1, config)
    async with running(repository, **options(tmp_path)) as rig:
        add_tricks_version(repository, "eye", 2, config, 11.0)  # a picture of 3 makes 14
        await rig.serving.load_model("eye")
        if config != PLAIN:
            await rig.serving.promote("eye")
        assert rig.serving.lookup("eye").version == "2"
        assert await crash(rig) >= 3
        await until(lambda: rig.serving.is_ready("eye"), tell=rig.serving.status)
        assert rig.serving.lookup("eye").version == "1"
        assert await see(rig, 3) == "3"
        await until(lambda: kinds(rig, "eye")[-1:] == [("model.rolled_back", "eye/2", "model.rolled_back")])
        assert shown(rig, "eye")["2"]["code"] == "model.stopped"
        record = kept(tmp_path)["eye"]
        assert (record["active"], record["previous"], list(record["refused"])) == (1, None, ["2"])
        assert "ended its engine host 3 times" in record["refused"]["2"]["reason"]
        await rig.serving.load_model("eye")
        assert rig.serving.lookup("eye").version == "1"
    for mode in ("none", "poll"):
        async with running(repository, **options(tmp_path, mode)) as rig:
            assert rig.serving.lookup("eye").version == "1"
            assert await see(rig, 3) == "3"
            assert rig.serving.versions("eye") == ["1"]


async def test_a_restart_between_the_change_and_the_crashes_forgets_no_way_back(tmp_path):
    repository = tmp_path / "models"
    add_tricks_version(repository, "eye", 1, PLAIN)
    async with running(repository, **options(tmp_path)):
        pass
    add_tricks_version(repository, "eye", 2, PLAIN, 11.0)
    async with running(repository, **options(tmp_path)) as rig:
        assert rig.serving.lookup("eye").version == "2"
    async with running(repository, **options(tmp_path)) as rig:
        await crash(rig)
        await until(lambda: rig.serving.is_ready("eye"), tell=rig.serving.status)
        assert rig.serving.lookup("eye").version == "1"


async def test_a_newer_version_that_cannot_be_loaded_at_start_leaves_what_served_before(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, PLAIN)
    async with running(repository, **options(tmp_path)):
        pass
    (repository / "add" / "2").mkdir()
    (repository / "add" / "2" / "model.onnx").write_bytes(b"no model")
    async with running(repository, **options(tmp_path, "poll")) as rig:
        await asyncio.sleep(0.4)
        assert rig.serving.lookup("add").version == "1"
        assert shown(rig, "add")["2"]["code"] == "model.load_failed"
        add_affine(repository, "add", 2, offset=5.0)
        await until(lambda: rig.serving.versions("add") == ["2"])
        await rig.serving.roll_back("add")
        assert rig.serving.versions("add") == ["1"]


async def test_a_version_that_ends_its_host_at_the_start_is_not_loaded_at_the_next(tmp_path):
    repository = tmp_path / "models"
    add_tricks_version(repository, "eye", 1, PLAIN)
    async with running(repository, **options(tmp_path)):
        pass
    add_tricks_version(repository, "eye", 2, PLAIN, 14.0)
    async with running(repository, **options(tmp_path)) as rig:
        assert rig.serving.lookup("eye").version == "1"
        await until(lambda: kinds(rig, "eye") == [("model.rolled_back", "eye/2", "model.stopped")])
        await until(lambda: list(kept(tmp_path)["eye"]["refused"]) == ["2"])
    async with running(repository, **options(tmp_path)) as rig:
        assert rig.serving.lookup("eye").version == "1"
        assert rig.serving.host_status()[0]["restarts"] == 0
        assert await see(rig, 3) == "3"


async def test_without_a_change_there_is_nothing_to_take_back(tmp_path):
    repository = tmp_path / "models"
    add_tricks(repository, "eye")
    (repository / "eye" / "1").rename(repository / "eye" / "2")
    shutil.copytree(str(repository / "eye" / "2"), str(repository / "eye" / "1"))
    async with running(repository, **options(tmp_path, "poll")) as rig:
        assert await crash(rig, 14) >= 3
        await asyncio.sleep(0.5)
        assert shown(rig, "eye")["2"]["code"] == "model.stopped"
        assert not rig.serving.is_ready("eye")
        assert kinds(rig, "eye") == []
        record = kept(tmp_path)["eye"]
        assert (record["active"], record["previous"], record["refused"]) == (2, None, {})


async def test_a_poisonous_request_does_not_throw_versions_to_and_fro(tmp_path):
    repository = tmp_path / "models"
    for version in (1, 2):
        add_python(repository, "add", version, infer="os._exit(3) if x[0, 0] == 5 else None")
        async with running(repository, **options(tmp_path)):
            pass
    async with running(repository, **options(tmp_path)) as rig:
        while shown(rig, "add").get("1", {"code": ""})["code"] != "model.stopped":
            with pytest.raises(errors.EdgeAgentError):
                await rig.ask("add", rows(5.0))
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
        assert [kind for kind, _, _ in kinds(rig, "add")] == ["model.rolled_back"]
        assert not rig.serving.is_ready("add")
        assert kept(tmp_path)["add"]["active"] == 1


async def test_where_the_one_that_serves_crashes_and_no_other_did_the_candidate_serves(tmp_path):
    repository = tmp_path / "models"
    add_tricks_version(repository, "eye", 1, PLAIN + ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_tricks_version(repository, "eye", 2, PLAIN + ACCEPT, 1.0)
        await rig.serving.load_model("eye")
        while shown(rig, "eye").get("1", {"code": ""})["code"] != "model.stopped" and "1" in rig.serving.versions("eye"):
            try:
                await see(rig, 14)
            except errors.EdgeAgentError:
                await asyncio.sleep(0.05)
        await until(lambda: rig.serving.is_ready("eye"), tell=rig.serving.status)
        assert rig.serving.lookup("eye").version == "2"
        assert await see(rig, 3) == "4"


@pytest.mark.parametrize("mode", ["none", "poll", "explicit"])
async def test_what_is_compared_is_promoted_by_hand_and_taken_back_by_hand_in_every_mode(tmp_path, mode):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)):
        pass
    add_affine(repository, "add", 2, offset=5.0)
    async with running(repository, **options(tmp_path, mode)) as rig:
        await until(lambda: [kind for kind, _, _ in kinds(rig, "add")] == ["model.shadowing"])
        await rig.serving.promote("add")
        assert rig.serving.lookup("add").version == "2"
        assert (await rig.ask("add", rows())).tolist() == (rows() + 5).tolist()
        assert rig.serving.versions("add") == ["2"]
        await rig.serving.roll_back("add")
        assert rig.serving.lookup("add").version == "1"
        assert rig.serving.versions("add") == ["1"]
        assert shown(rig, "add")["2"]["code"] == "model.rolled_back"
        assert [event[:2] for event in kinds(rig, "add")[1:]] == [("model.promoted", "add/2"), ("model.rolled_back", "add/2")]
        with pytest.raises(errors.InvalidRequest, match="no earlier version"):
            await rig.serving.roll_back("add")
        await rig.serving.promote("add", "2")
        assert rig.serving.lookup("add").version == "2"
    async with running(repository, **options(tmp_path, mode)) as rig:
        assert rig.serving.lookup("add").version == "2"
        await rig.serving.roll_back("add")
        assert rig.serving.lookup("add").version == "1"


async def test_a_plain_model_is_taken_back_and_forth_by_hand(tmp_path):
    repository = tmp_path / "models"
    for version in (1, 2, 3):
        add_affine(repository, "add", version, PLAIN, offset=float(version))
    async with running(repository, **options(tmp_path, "poll")) as rig:
        assert rig.serving.lookup("add").version == "3"
        with pytest.raises(errors.InvalidRequest, match="no earlier version"):
            await rig.serving.roll_back("add")
        with pytest.raises(errors.InvalidRequest, match="name one"):
            await rig.serving.promote("add")
        await rig.serving.promote("add", "1")
        assert rig.serving.versions("add") == ["1"]
        await asyncio.sleep(0.5)
        assert (await rig.ask("add", rows())).tolist() == (rows() + 1).tolist()
        await rig.serving.roll_back("add")
        assert rig.serving.versions("add") == ["3"]
        await asyncio.sleep(0.5)
        assert rig.serving.versions("add") == ["3"]
    async with running(repository, **options(tmp_path, "poll")) as rig:
        assert rig.serving.versions("add") == ["3"]


async def test_a_newer_version_serves_at_once_after_one_was_taken_back(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, PLAIN)
    async with running(repository, **options(tmp_path, "poll")) as rig:
        add_affine(repository, "add", 2)
        await until(lambda: rig.serving.versions("add") == ["2"])
        await rig.serving.roll_back("add")
        add_affine(repository, "add", 3)
        await until(lambda: rig.serving.versions("add") == ["3"])


async def test_a_candidate_is_refused_by_hand_where_no_other_served_before(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await rig.serving.load_model("add")
        await rig.serving.roll_back("add")
        assert shown(rig, "add")["2"]["code"] == "model.shadow_rejected"
        assert rig.serving.lookup("add").version == "1"
        await rig.serving.load_model("add")
        assert shown(rig, "add")["2"]["code"] == "model.shadow_rejected"


async def test_taking_back_leaves_the_candidate_to_be_compared_with_what_serves_then(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2, offset=5.0)
        await rig.serving.load_model("add")
        await rig.serving.promote("add")
        add_affine(repository, "add", 3)
        await rig.serving.load_model("add")
        assert shown(rig, "add")["3"]["code"] == "model.shadowing"
        await rig.serving.roll_back("add")
        assert sorted(shown(rig, "add")) == ["1", "2", "3"]
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "3")


async def test_what_cannot_be_promoted_says_why_and_what_serves_goes_on(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        with pytest.raises(errors.ModelNotFound):
            await rig.serving.promote("absent")
        with pytest.raises(errors.InvalidRequest, match="serves already"):
            await rig.serving.promote("add", "1")
        for version in ("2", "x", "-1", "1" * 400):
            with pytest.raises(errors.ModelNotFound, match="has no version"):
                await rig.serving.promote("add", version)
        (repository / "add" / "2").mkdir()
        (repository / "add" / "2" / "model.onnx").write_bytes(b"no model")
        with pytest.raises(errors.EngineLoadError, match=r"failed to promote version 2 of 'add', .*model\.onnx"):
            await rig.serving.promote("add", "2")
        assert rig.serving.versions("add") == ["1"]
        assert (await rig.ask("add", rows())).tolist() == (rows() + 1).tolist()
        assert kept(tmp_path)["add"]["active"] == 1
        await rig.serving.hold("add")
        for verb in (rig.serving.promote("add", "2"), rig.serving.roll_back("add")):
            with pytest.raises(errors.ControlRefused, match="is not loaded"):
                await verb


async def test_what_cannot_be_loaded_any_more_is_not_gone_back_to(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, PLAIN)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await rig.serving.load_model("add")
        whole = (repository / "add/1/model.onnx").read_bytes()
        (repository / "add/1/model.onnx").write_bytes(b"no model")
        with pytest.raises(errors.EngineLoadError, match="failed to go back to version 1"):
            await rig.serving.roll_back("add")
        assert rig.serving.versions("add") == ["2"]
        (repository / "add/1/model.onnx").write_bytes(whole)
        await rig.serving.roll_back("add")
        assert rig.serving.versions("add") == ["1"]
        shutil.rmtree(str(repository / "add" / "2"))
        add_affine(repository, "add", 3)
        await rig.serving.load_model("add")
        shutil.rmtree(str(repository / "add" / "1"))
        with pytest.raises(errors.InvalidRequest, match="no earlier version"):
            await rig.serving.roll_back("add")


async def test_a_version_policy_that_names_others_is_not_overruled(tmp_path):
    repository = tmp_path / "models"
    config = PLAIN + "[version_policy.specific]\nversions = [1]\n"
    for version in (1, 2):
        add_affine(repository, "add", version, config)
    async with running(repository, **options(tmp_path)) as rig:
        with pytest.raises(errors.EngineLoadError, match="version_policy does not have it served"):
            await rig.serving.promote("add", "2")
        assert rig.serving.versions("add") == ["1"]


async def test_when_all_versions_are_refused_the_model_says_so(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await rig.serving.load_model("add")
        await rig.serving.roll_back("add")
    shutil.rmtree(str(repository / "add" / "1"))
    async with running(repository, **options(tmp_path)) as rig:
        with pytest.raises(errors.ModelNotReady, match="version 2 was refused, and there is no other"):
            rig.serving.lookup("add")
        with pytest.raises(errors.EngineLoadError, match="version 2 was refused"):
            await rig.serving.load_model("add")
        await rig.serving.promote("add", "2")
        assert rig.serving.lookup("add").version == "2"


async def test_a_python_version_that_crashes_is_rolled_back_too(tmp_path):
    repository = tmp_path / "models"
    add_python(repository, "add", 1)
    async with running(repository, **options(tmp_path)) as rig:
        add_python(repository, "add", 2, infer="os._exit(3) if x[0, 0] == 5 else None")
        await rig.serving.load_model("add")
        assert rig.serving.lookup("add").version == "2"
        while rig.serving.versions("add") == ["2"]:
            try:
                await rig.ask("add", rows(5.0))
            except errors.EdgeAgentError:
                await asyncio.sleep(0.05)
        await until(lambda: rig.serving.is_ready("add"), tell=rig.serving.status)
        assert rig.serving.versions("add") == ["1"]
        assert (await rig.ask("add", rows(5.0))).tolist() == (rows(5.0) + 1).tolist()


async def test_requests_go_on_while_versions_are_promoted_and_taken_back(tmp_path):
    repository = tmp_path / "models"
    for version in (1, 2):
        add_affine(repository, "add", version, PLAIN + ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        stop, answered = False, 0

        async def client(number):
            nonlocal answered
            while not stop:
                x = rows(float(number))
                assert (await rig.ask("add", x)).tolist() == (x + 1).tolist()
                answered += 1

        clients = [asyncio.ensure_future(client(number)) for number in range(4)]
        for version in ("1", "2", "1", "2"):
            await rig.serving.promote("add", version)
            assert rig.serving.lookup("add").version == version
        stop = True
        await asyncio.gather(*clients)
        assert answered > 20
        await until(lambda: rig.arena.status()["slots"] == 0)
