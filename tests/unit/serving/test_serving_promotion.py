"""Newer versions of a model with [accept]: compared on real requests, then promoted or refused, over restarts."""

from __future__ import annotations

import asyncio
import json
import shutil

import numpy
import pytest

from edge_agent import errors
from edge_agent.config.hosts import HostSection
from edge_agent.serving.promotion.board import Board
from edge_agent.serving.promotion.ledger import FILE_NAME
from tests.promotion_rig import ACCEPT, add_affine, add_python, add_tricks_version, ask_until, kinds, rows, shown, until
from tests.serving_rig import label, picture, running

HUNDRED = ACCEPT.replace("= 20", "= 100")


def options(tmp_path, mode="explicit", **more):
    return {"control_mode": mode, "poll_interval_s": 0.1, "state_dir": tmp_path, **more}


async def newer(rig, name, mode="explicit"):
    """A new version was put on disk: lets the agent see it, and waits until it is compared."""
    if mode == "explicit":
        await rig.serving.load_model(name)
    await until(lambda: kinds(rig, name)[-1:] and kinds(rig, name)[-1][0] == "model.shadowing", tell=rig.serving.status)


def kept(tmp_path):
    return json.loads((tmp_path / FILE_NAME).read_text())["models"]


@pytest.mark.parametrize("mode", ["explicit", "poll"])
async def test_a_newer_version_that_answers_alike_is_promoted_after_the_requests_that_are_asked(tmp_path, mode):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, mode)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add", mode)
        assert rig.serving.lookup("add").version == "1"
        asked = await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")
        assert asked >= 20
        await until(lambda: kinds(rig, "add")[-1] == ("model.promoted", "add/2", "model.promoted"))
        await until(lambda: rig.serving.versions("add") == ["2"])
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["cpu"])
        assert kept(tmp_path)["add"] == {"active": 2, "previous": 1, "candidate": None, "refused": {}}
        assert rig.serving.pinned() == {("add", "2"), ("add", "1")}
        assert (await rig.ask("add", rows())).tolist() == (rows() + 1).tolist()


@pytest.mark.parametrize("mode", ["explicit", "poll", "none"])
async def test_a_worse_version_is_refused_within_a_hundred_requests_and_not_tried_again(tmp_path, mode):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path, "explicit" if mode == "none" else mode)) as rig:
        add_affine(repository, "add", 2, offset=5.0)
        await newer(rig, "add", "explicit" if mode == "none" else mode)
        asked = await ask_until(rig, "add", lambda: kinds(rig, "add")[-1][0] == "model.rolled_back")
        assert asked <= 100
        assert kinds(rig, "add")[-1] == ("model.rolled_back", "add/2", "model.shadow_rejected")
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["cpu"])
        entry = shown(rig, "add")["2"]
        assert (entry["state"], entry["code"]) == ("off", "model.shadow_rejected")
        assert "it agreed to 0.0 % on 11 requests" in entry["reason"]
        assert [one["state"] for one in rig.serving.index()] == ["READY", "UNAVAILABLE"]
        with pytest.raises(errors.ModelNotFound):
            rig.serving.lookup("add", "2")
    async with running(repository, **options(tmp_path, mode)) as rig:
        assert rig.serving.lookup("add").version == "1"
        await ask_until(rig, "add", lambda: rig.serving.statistics("add")[0]["inference_count"] > 30)
        assert kinds(rig, "add") == []
        assert shown(rig, "add")["2"]["code"] == "model.shadow_rejected"
        assert set(kept(tmp_path)["add"]["refused"]) == {"2"}


async def test_a_refused_version_whose_files_change_is_tried_again(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, "poll")) as rig:
        add_affine(repository, "add", 2, offset=5.0)
        await newer(rig, "add", "poll")
        await ask_until(rig, "add", lambda: kinds(rig, "add")[-1][0] == "model.rolled_back")
        add_affine(repository, "add", 2)
        await newer(rig, "add", "poll")
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")
        await until(lambda: kept(tmp_path)["add"]["refused"] == {})


async def test_a_restart_goes_on_with_what_was_being_compared(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["compared"] > 3)
    assert kept(tmp_path)["add"] == {"active": 1, "previous": None, "candidate": 2, "refused": {}}
    for mode in ("none", "explicit"):
        async with running(repository, **options(tmp_path, mode)) as rig:
            assert rig.serving.lookup("add").version == "1"
            await until(lambda: "2" in shown(rig, "add") and shown(rig, "add")["2"]["code"] == "model.shadowing")  # noqa: B023
    async with running(repository, **options(tmp_path, "poll")) as rig:
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")
        await until(lambda: kept(tmp_path)["add"]["active"] == 2)
    async with running(repository, **options(tmp_path, "none")) as rig:
        assert rig.serving.lookup("add").version == "2"
        assert rig.serving.versions("add") == ["2"]


async def test_a_version_that_came_while_the_agent_was_down_is_compared_too(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)):
        pass
    add_affine(repository, "add", 2)
    async with running(repository, **options(tmp_path, "none")) as rig:
        assert rig.serving.lookup("add").version == "1"
        await until(lambda: "2" in shown(rig, "add") and shown(rig, "add")["2"]["code"] == "model.shadowing")


async def test_the_agent_is_ready_before_what_is_only_compared_is_loaded(tmp_path):
    repository = tmp_path / "models"
    add_python(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)):
        pass
    gate = tmp_path / "gate"
    gate.touch()
    add_python(repository, "add", 2, ACCEPT, load="while os.path.exists(%r): time.sleep(0.02)" % str(gate))
    async with running(repository, **options(tmp_path)) as rig:
        assert rig.serving.ready()
        await until(lambda: "2" in shown(rig, "add") and shown(rig, "add")["2"]["code"] == "model.loading")
        assert (await rig.ask("add", rows())).tolist() == (rows() + 1).tolist()
        gate.unlink()
        await until(lambda: shown(rig, "add")["2"]["code"] == "model.shadowing")


async def test_a_version_that_changes_its_input_in_place_does_not_make_the_next_one_look_wrong(tmp_path):
    repository = tmp_path / "models"
    add_python(repository, "add", 1, ACCEPT, infer="x = x + 0; x *= 1; inputs['x'].flags.writeable and inputs['x'].fill(7)")
    async with running(repository, **options(tmp_path)) as rig:
        add_python(repository, "add", 2, ACCEPT)
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")


async def test_without_the_table_a_newer_version_serves_at_once(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, "max_batch_size = 8\n")
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2, offset=5.0)
        await rig.serving.load_model("add")
        assert rig.serving.lookup("add").version == "2"
        assert kept(tmp_path)["add"] == {"active": 2, "previous": 1, "candidate": None, "refused": {}}


async def test_what_is_compared_answers_nobody_and_is_counted_nowhere(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["compared"] >= 10)
        asked = rig.serving.statistics("add")[0]["inference_count"]
        assert [entry["version"] for entry in rig.serving.statistics("add")] == ["1"]
        assert {(record.version, record.source) for record in rig.journal.requests} == {("1", "")}
        assert len(rig.journal.requests) == asked
        scraped = "\n".join(str(family.samples) for family in rig.metrics.collect())
        assert "'version': '1'" in scraped
        assert "'version': '2'" not in scraped
        with pytest.raises(errors.ModelNotReady, match="compared with the one that serves"):
            rig.serving.lookup("add", "2")
        assert not rig.serving.is_ready("add", "2")
        assert rig.serving.versions("add") == ["1"]
        assert rig.serving.index()[1]["state"] == "UNAVAILABLE"
        shadow = shown(rig, "add")["2"]["shadow"]
        assert shadow["wanted"] == 100
        assert shadow["agreement"] == 1.0
        assert shadow["p95_ms"] > 0
        assert shadow["serving_p95_ms"] > 0
        assert (shadow["paused"], shadow["overdue"], shadow["errors"]) == ("", False, 0)
        assert [host["name"] for host in rig.serving.host_status()] == ["cpu", "cpu+add"]


async def test_answers_are_the_same_under_load_while_a_bad_version_is_compared(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, "max_batch_size = 8\n" + HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2, offset=-3.0)
        await newer(rig, "add")
        stop, answered = False, 0

        async def client(number):
            nonlocal answered
            while not stop:
                x = rows(float(number), 1 + number % 3)
                assert (await rig.ask("add", x)).tolist() == (x + 1).tolist()
                answered += 1

        clients = [asyncio.ensure_future(client(number)) for number in range(8)]
        await until(lambda: kinds(rig, "add")[-1][0] == "model.rolled_back" and answered > 200, tell=rig.serving.status)
        stop = True
        await asyncio.gather(*clients)
        await until(lambda: rig.arena.status()["slots"] == 0)


@pytest.mark.parametrize(("infer", "reason"), [
    ("raise ValueError('no')", "it failed on 3 of "),
    ("os._exit(3)", "ended its engine host 3 times"),
    ("x = x[:, :2]", "it failed on 3 of "),
])  # fmt: skip
async def test_a_version_that_fails_or_dies_is_refused_and_no_caller_sees_it(tmp_path, infer, reason):
    repository = tmp_path / "models"
    add_python(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_python(repository, "add", 2, HUNDRED, infer=infer)
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: kinds(rig, "add")[-1][0] == "model.rolled_back")
        assert {record.status for record in rig.journal.requests} == {"ok"}
        assert reason in shown(rig, "add")["2"]["reason"]
        (host,) = [host for host in rig.serving.host_status() if host["name"] == "python"]
        assert host["restarts"] == 0


async def test_detections_are_compared_by_their_labels(tmp_path):
    repository = tmp_path / "models"
    add_tricks_version(repository, "eye", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_tricks_version(repository, "eye", 2, ACCEPT, 1.0)
        await newer(rig, "eye")
        while kinds(rig, "eye")[-1][0] != "model.rolled_back":
            assert label(await rig.ask("eye", picture(3), names=("image",), decode=True)) == "3"
        add_tricks_version(repository, "eye", 3, ACCEPT)
        await newer(rig, "eye")
        while rig.serving.lookup("eye").version != "3":
            assert label(await rig.ask("eye", picture(3), names=("image",), decode=True)) == "3"


async def test_a_version_that_crashes_its_decoder_ends_only_its_own_host(tmp_path):
    repository = tmp_path / "models"
    add_tricks_version(repository, "eye", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_tricks_version(repository, "eye", 2, ACCEPT, 11.0)
        pid = rig.host_pid()
        await newer(rig, "eye")
        while kinds(rig, "eye")[-1][0] != "model.rolled_back":
            assert label(await rig.ask("eye", picture(3), names=("image",), decode=True)) == "3"
            await asyncio.sleep(0.01)
        assert rig.host_pid() == pid


@pytest.mark.parametrize("mode", ["explicit", "poll"])
async def test_hosts_that_are_killed_meanwhile_change_nothing(tmp_path, mode):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path, mode)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add", mode)
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["compared"] > 3)
        for host in ("cpu+add", "cpu"):
            killing = asyncio.ensure_future(rig.kill_host(host))
            while not killing.done():
                assert (await rig.ask("add", rows())).tolist() == (rows() + 1).tolist()
            await killing
            await asyncio.sleep(0.3)
            assert rig.serving.versions("add") == ["1"]
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")
        assert {record.status for record in rig.journal.requests} == {"ok"}


async def test_a_version_that_hangs_is_refused_and_holds_up_nobody(tmp_path):
    repository = tmp_path / "models"
    hosts = {"python": HostSection(batch_timeout_s=0.5, load_timeout_s=5)}
    add_python(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path, hosts=hosts)) as rig:
        add_python(repository, "add", 2, HUNDRED, infer="time.sleep(1000) if x[0, 1] else None")
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: kinds(rig, "add")[-1][0] == "model.rolled_back")
        assert {record.status for record in rig.journal.requests} == {"ok"}
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["python"])


async def test_stopping_while_the_version_that_is_compared_hangs_leaves_nothing(tmp_path):
    repository = tmp_path / "models"
    add_python(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_python(repository, "add", 2, HUNDRED, infer="time.sleep(1000) if x[0, 1] else None")
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["skipped"] > 3)
        assert rig.arena.status()["slots"] > 0
    assert rig.arena.status()["slots"] == 0


async def test_answers_of_the_response_cache_are_not_compared(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED + "[response_cache]\nenable = true\n")
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        await rig.ask("add", rows())
        await until(lambda: shown(rig, "add")["2"]["shadow"]["compared"] == 1)
        for _ in range(5):
            await rig.ask("add", rows())
        values = iter(range(3, 1000))  # each is new to the cache; what comes while the candidate rests is not compared

        async def compared_again():
            while shown(rig, "add")["2"]["shadow"]["compared"] < 2:
                await rig.ask("add", rows(float(next(values))))
                await asyncio.sleep(0.05)

        assert shown(rig, "add")["2"]["shadow"]["compared"] == 1
        await asyncio.wait_for(compared_again(), 30)


async def test_one_instance_is_enough_to_compare(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, "instance_group = [{count = 3}]\n" + HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        candidate = rig.serving._lineup.trials.of("add").served
        assert len(candidate.hosted.instances) == 1
        assert len(rig.serving.lookup("add").hosted.instances) == 3
        await rig.serving.promote("add")
        assert len(rig.serving.lookup("add").hosted.instances) == 3


async def test_a_version_that_takes_other_inputs_is_refused(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_tricks_version(repository, "eye", 1)
        (repository / "add" / "2").mkdir()
        shutil.copy(str(repository / "eye/1/model.onnx"), str(repository / "add/2/model.onnx"))
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: kinds(rig, "add")[-1][0] == "model.rolled_back")
        assert "it takes other inputs: image, not x" in shown(rig, "add")["2"]["reason"]


async def test_a_version_that_cannot_be_loaded_is_told_and_the_other_serves_on(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        (repository / "add" / "2").mkdir()
        (repository / "add" / "2" / "model.onnx").write_bytes(b"no model")
        for _ in range(2):
            await rig.serving.load_model("add")  # the model is up: what is only compared has its own state
            found = shown(rig, "add")["2"]
            assert (found["state"], found["code"]) == ("failed", "model.load_failed")
            assert "model.onnx" in found["reason"]
        assert rig.serving.lookup("add").version == "1"
        assert [host["name"] for host in rig.serving.host_status()] == ["cpu"]
        add_affine(repository, "add", 2)
        await newer(rig, "add")


@pytest.mark.parametrize("mode", ["explicit", "poll"])
async def test_a_version_that_ends_its_host_as_it_is_loaded_is_refused_over_restarts(tmp_path, mode):
    repository = tmp_path / "models"
    add_tricks_version(repository, "eye", 1, ACCEPT)
    async with running(repository, **options(tmp_path, mode)) as rig:
        add_tricks_version(repository, "eye", 2, ACCEPT, 14.0)
        pid = rig.host_pid()
        if mode == "explicit":
            await rig.serving.load_model("eye")
        await until(lambda: kinds(rig, "eye") == [("model.rolled_back", "eye/2", "model.stopped")], tell=rig.serving.status)
        assert rig.host_pid() == pid
        assert shown(rig, "eye")["2"]["code"] == "model.stopped"
    async with running(repository, **options(tmp_path, mode)) as rig:
        assert rig.serving.lookup("eye").version == "1"
        assert kinds(rig, "eye") == []
        assert shown(rig, "eye")["2"]["code"] == "model.stopped"


async def test_two_models_are_compared_at_once(tmp_path):
    repository = tmp_path / "models"
    for name in ("good", "bad"):
        add_affine(repository, name, 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "good", 2)
        add_affine(repository, "bad", 2, offset=7.0)
        await asyncio.gather(newer(rig, "good"), newer(rig, "bad"))
        await asyncio.gather(
            ask_until(rig, "good", lambda: rig.serving.lookup("good").version == "2"),
            ask_until(rig, "bad", lambda: kinds(rig, "bad")[-1][0] == "model.rolled_back"),
        )
        assert rig.serving.lookup("bad").version == "1"
        await until(lambda: [host["name"] for host in rig.serving.host_status()] == ["cpu"])


@pytest.mark.parametrize("how", ["unload", "hold", "stop"])
async def test_a_model_is_taken_down_while_its_newer_version_is_compared(tmp_path, how):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        clients = [asyncio.ensure_future(ask_until(rig, "add", lambda: False)) for _ in range(4)]
        await until(lambda: shown(rig, "add")["2"]["shadow"]["compared"] > 3)
        if how == "stop":
            rig.serving.drain()
        else:
            await (rig.serving.unload_model("add") if how == "unload" else rig.serving.hold("add"))
            assert rig.serving.host_status() == []
            assert shown(rig, "add") == {}
        assert all(isinstance(error, errors.EdgeAgentError) for error in await asyncio.gather(*clients, return_exceptions=True))
        if how != "stop":
            await until(lambda: rig.arena.status()["slots"] == 0)
            await (rig.serving.load_model("add") if how == "unload" else rig.serving.release("add"))
            assert rig.serving.lookup("add").version == "1"
            assert shown(rig, "add")["2"]["code"] == "model.shadowing"


async def test_files_that_come_with_a_load_request_are_not_compared(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    add_affine(tmp_path / "other", "add", 2, offset=5.0)
    async with running(repository, **options(tmp_path)) as rig:
        file = (tmp_path / "other/add/2/model.onnx").read_bytes()
        await rig.serving.load_model("add", json.dumps({"backend": "onnxruntime"}), {"2/model.onnx": file})
        assert rig.serving.lookup("add").version == "2"
        with pytest.raises(errors.InvalidRequest, match="came with a load request"):
            await rig.serving.roll_back("add")
        await rig.serving.load_model("add")
        assert rig.serving.lookup("add").version == "1"
        assert kept(tmp_path)["add"] == {"active": 1, "previous": None, "candidate": None, "refused": {}}


async def test_a_newer_version_takes_the_place_of_the_one_that_is_compared(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        add_affine(repository, "add", 3)
        await rig.serving.load_model("add")
        assert sorted(shown(rig, "add")) == ["1", "3"]
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "3")


async def test_a_version_whose_files_change_while_it_is_compared_begins_anew(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["compared"] > 5)
        await rig.serving.load_model("add")
        assert shown(rig, "add")["2"]["shadow"]["compared"] > 5
        add_affine(repository, "add", 2, offset=1.0001)
        await rig.serving.load_model("add")
        assert shown(rig, "add")["2"]["shadow"]["compared"] == 0


async def test_a_version_that_is_compared_can_be_loaded_again(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["compared"] > 5)
        await rig.serving._control.again("add", "2")
        assert shown(rig, "add")["2"]["shadow"]["compared"] == 0
        assert rig.serving.lookup("add").version == "1"
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")


async def test_where_nothing_serves_there_is_nothing_to_compare_with(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path)):
        pass
    (repository / "add/1/model.onnx").write_bytes(b"no model")
    add_affine(repository, "add", 2, offset=5.0)
    async with running(repository, **options(tmp_path)) as rig:
        assert rig.serving.lookup("add").version == "2"
        assert (kept(tmp_path)["add"]["active"], kept(tmp_path)["add"]["unjudged"]) == (1, 2)  # 1 is the one that was judged


async def test_a_version_is_not_loaded_beside_where_memory_is_short_until_it_is_not(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    free = 1 << 20
    board = Board(memory_available=lambda: free)
    async with running(repository, **options(tmp_path, "poll", board=board)) as rig:
        add_affine(repository, "add", 2)
        await until(lambda: "2" in shown(rig, "add"))
        assert (shown(rig, "add")["2"]["state"], shown(rig, "add")["2"]["code"]) == ("off", "model.shadow_waits")
        assert "no memory for a second engine" in shown(rig, "add")["2"]["reason"]
        assert [host["name"] for host in rig.serving.host_status()] == ["cpu"]
        free = 1 << 40
        await newer(rig, "add", "poll")


async def test_a_hot_board_pauses_and_one_that_only_this_version_heats_refuses_it(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    degrees = 60.0
    board = Board(temperature_c=lambda: degrees, hot_c=85.0)
    async with running(repository, **options(tmp_path, board=board)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")

        def shadow():
            return shown(rig, "add")["2"]["shadow"]

        for _ in range(3):
            before, degrees = shadow()["compared"], 60.0
            await ask_until(rig, "add", lambda: shadow()["compared"] > before)  # noqa: B023
            degrees = 90.0
            await ask_until(rig, "add", lambda: shadow()["paused"] == "too hot")
        degrees = 60.0
        await ask_until(rig, "add", lambda: kinds(rig, "add")[-1][0] == "model.rolled_back")
        assert "too hot" in shown(rig, "add")["2"]["reason"]


async def test_a_request_with_a_near_deadline_is_not_run_twice(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        hurried = 0
        for _ in range(20):
            try:
                await rig.ask("add", rows(), deadline=rig.clock.monotonic() + 0.09)
                hurried += 1
            except errors.DeadlineExceeded:
                continue
        assert hurried
        shadow = shown(rig, "add")["2"]["shadow"]
        assert (shadow["compared"], shadow["skipped"]) == (0, hurried)
        await rig.ask("add", rows(), deadline=rig.clock.monotonic() + 60)
        await until(lambda: shown(rig, "add")["2"]["shadow"]["compared"] == 1)


async def test_nothing_is_compared_while_the_arena_is_short(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, HUNDRED)
    async with running(repository, **options(tmp_path, arena_bytes=1 << 20)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        lease, room = await rig.serving.reserve("add", None, 16)
        taken = []
        while True:
            more = rig.arena.try_acquire([(rig.serving.lookup("add").segment, 4096)])
            if more is None:
                break
            taken += more
        for one in (lease, room):
            one.release()
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["skipped"] > 0)
        for one in taken:
            one.release()
        await ask_until(rig, "add", lambda: shown(rig, "add")["2"]["shadow"]["compared"] > 0)


async def test_too_little_traffic_leaves_it_compared_and_says_so(tmp_path, caplog):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT + "shadow_timeout_s = 0.1\n")
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        await until(lambda: shown(rig, "add")["2"]["shadow"]["overdue"])
        assert shown(rig, "add")["2"]["code"] == "model.shadowing"
        assert "0 of 20 requests" in caplog.text
        await ask_until(rig, "add", lambda: rig.serving.lookup("add").version == "2")


async def test_a_damaged_record_is_told_and_nothing_is_refused(tmp_path, caplog):
    repository = tmp_path / "models"
    for version in (1, 2):
        add_affine(repository, "add", version, ACCEPT)
    (tmp_path / FILE_NAME).write_text('{"form": 1, "models": {"add"')
    async with running(repository, **options(tmp_path)) as rig:
        assert FILE_NAME in caplog.text
        assert rig.serving.lookup("add").version == "2"
        assert kept(tmp_path)["add"]["active"] == 2


async def test_a_model_that_is_removed_is_forgotten(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, ACCEPT)
    async with running(repository, **options(tmp_path, "poll")) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add", "poll")
        shutil.rmtree(str(repository / "add"))
        await until(lambda: "add" not in rig.serving.names())
        await until(lambda: rig.serving.host_status() == [])
        assert kept(tmp_path) == {}


async def test_requests_that_share_memory_that_others_write_leave_every_slot_free(tmp_path):
    repository = tmp_path / "models"
    add_affine(repository, "add", 1, "max_batch_size = 64\n" + HUNDRED)
    async with running(repository, **options(tmp_path)) as rig:
        add_affine(repository, "add", 2)
        await newer(rig, "add")
        big = numpy.tile(rows(), (50, 1))
        for _ in range(30):
            left = asyncio.ensure_future(rig.ask("add", big))
            await asyncio.sleep(0.001)
            left.cancel()
            assert (await rig.ask("add", big)).tolist() == (big + 1).tolist()
        await until(lambda: rig.arena.status()["slots"] == 0)
