"""What fails for the moment is tried again, and refused by nobody; what ends its host thrice is given up."""

from __future__ import annotations

import asyncio
import contextlib
import json

from edge_agent import errors
from edge_agent.serving.promotion.ledger import FILE_NAME
from tests.promotion_rig import add_python, ask_until, kinds, rows, shown, until
from tests.serving_rig import running

TWO = "[version_policy.latest]\nnum_versions = 2\n"


def options(tmp_path, mode, **more):
    return {"control_mode": mode, "poll_interval_s": 0.1, "state_dir": tmp_path, **more}


def short_of_memory(flag):
    """A line that fails while the file is there."""
    return "assert not os.path.exists(%r), 'no memory now'" % str(flag)


async def test_a_version_that_its_host_cannot_load_again_for_the_moment_comes_back_and_is_not_refused(tmp_path):
    repository, flag = tmp_path / "models", tmp_path / "short"
    add_python(repository, "add", 1, TWO, load=short_of_memory(flag))
    add_python(repository, "add", 2, TWO)
    async with running(repository, **options(tmp_path, "poll")) as rig:
        assert sorted(rig.serving.versions("add")) == ["1", "2"]
        flag.touch()
        await rig.kill_host(rig.serving.host_status()[0]["name"])
        await until(lambda: shown(rig, "add")["1"]["code"] == "model.load_failed", tell=rig.serving.status)
        assert "no memory now" in shown(rig, "add")["1"]["reason"]
        flag.unlink()
        await until(lambda: rig.serving.is_ready("add", "1"), tell=rig.serving.status)
        assert (await rig.ask("add", rows(), version="1")).tolist() == (rows() + 1).tolist()
        assert kinds(rig, "add") == []
        assert json.loads((tmp_path / FILE_NAME).read_text())["models"]["add"]["refused"] == {}


async def test_the_only_version_comes_back_too_in_every_mode(tmp_path):
    repository, flag = tmp_path / "models", tmp_path / "short"
    add_python(repository, "add", 1, load=short_of_memory(flag))
    for mode in ("none", "explicit"):
        async with running(repository, **options(tmp_path, mode, load=["add"])) as rig:
            flag.touch()
            await rig.kill_host(rig.serving.host_status()[0]["name"])
            await until(lambda rig=rig: shown(rig, "add")["1"]["state"] == "failed", tell=rig.serving.status)
            flag.unlink()
            await until(lambda rig=rig: rig.serving.is_ready("add"), tell=rig.serving.status)


async def test_a_version_that_passed_is_swapped_in_when_what_it_lacked_is_there(tmp_path):
    repository, flag = tmp_path / "models", tmp_path / "short"
    accept = "[accept]\nmax_p95_ms = 60000\nshadow_requests = 5\n"
    add_python(repository, "add", 1, accept)
    async with running(repository, **options(tmp_path, "explicit", load=["add"])) as rig:
        add_python(repository, "add", 2, accept, load=short_of_memory(flag))
        await rig.serving.load_model("add")
        assert shown(rig, "add")["2"]["code"] == "model.shadowing"
        flag.touch()
        await ask_until(rig, "add", lambda: ("model.failed", "add/2", "model.load_failed") in rig.journal.events)
        await until(lambda: shown(rig, "add").get("2", {}).get("code") == "model.load_failed", tell=rig.serving.status)
        assert rig.serving.lookup("add").version == "1"
        assert json.loads((tmp_path / FILE_NAME).read_text())["models"]["add"]["refused"] == {}
        flag.unlink()
        await until(lambda: rig.serving.lookup("add").version == "2", tell=rig.serving.status)
        await until(lambda: [kind for kind, _, _ in kinds(rig, "add")] == ["model.shadowing", "model.promoted"])


async def test_a_version_that_passed_and_then_ends_its_host_as_it_is_loaded_is_refused(tmp_path):
    repository, flag = tmp_path / "models", tmp_path / "deadly"
    accept = "[accept]\nmax_p95_ms = 60000\nshadow_requests = 5\n"
    add_python(repository, "add", 1, accept)
    async with running(repository, **options(tmp_path, "explicit", load=["add"])) as rig:
        add_python(repository, "add", 2, accept, load="os._exit(3) if os.path.exists(%r) else None" % str(flag))
        await rig.serving.load_model("add")
        flag.touch()
        await ask_until_refused(rig)
        assert shown(rig, "add")["2"]["code"] == "model.shadow_rejected"
        assert "could not be loaded to serve" in shown(rig, "add")["2"]["reason"]
        await until(lambda: rig.serving.is_ready("add"), tell=rig.serving.status)


async def ask_until_refused(rig):
    """Its host ends with what serves in it: such requests may fail."""
    end = rig.clock.monotonic() + 40
    while kinds(rig, "add")[-1][0] != "model.rolled_back":
        assert rig.clock.monotonic() < end, rig.serving.status()
        with contextlib.suppress(errors.EdgeAgentError):
            await rig.ask("add", rows())
        await asyncio.sleep(0.02)
