"""Plans on disk: only whole ones are given out, the bad ones are remembered, and there is a bound."""

from __future__ import annotations

import errno
import json
import logging
import os
import stat
from pathlib import Path
from typing import Any, Callable, List

import pytest

from edge_agent import errors
from edge_agent.engines.plans import plan_files
from edge_agent.engines.plans.key import PlanKey, PlanRecipe, PlanTarget
from edge_agent.engines.plans.shelf import Plan, PlanShelf
from edge_agent.engines.plans.sidecar import Sidecar

TARGET = PlanTarget("10.3.0.26", 12060, (8, 7), "Orin", 16)


def key_of(number: int = 0) -> PlanKey:
    return PlanKey("%064x" % number, TARGET, PlanRecipe("fp16"))


KEY = key_of()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "plans"


def opened(folder: Path, max_bytes: int = 1 << 20) -> PlanShelf:
    shelf = PlanShelf(folder, max_bytes)
    shelf.prepare()
    return shelf


@pytest.fixture
def shelf(folder: Path) -> PlanShelf:
    return opened(folder)


def put(shelf: PlanShelf, key: PlanKey = KEY, content: bytes = b"plan" * 25) -> Plan:
    temporary = shelf.temporary(key)
    temporary.write_bytes(content)
    return shelf.add(temporary, Sidecar.of(key, "adder/1", "fp16", "2030-01-01T00:00:00.000Z", (), {"seconds": 1.0}))


def names(folder: Path) -> List[str]:
    return sorted(path.name for path in folder.iterdir())


# -- what is whole ------------------------------------------------------------------------------------------------------


def test_a_plan_is_found_as_it_was_put_there_unverified(shelf: PlanShelf, folder: Path) -> None:
    put(shelf)
    found = opened(folder).find(KEY)
    assert found is not None
    assert found.path.read_bytes() == b"plan" * 25
    assert not found.sidecar.verified
    assert found.sidecar.report == {"seconds": 1.0}
    assert names(folder) == [KEY.digest + ".json", KEY.digest + ".plan"]


def test_an_empty_shelf_has_none(shelf: PlanShelf) -> None:
    assert shelf.find(KEY) is None
    assert shelf.refused(KEY) is None


def test_another_key_finds_nothing(shelf: PlanShelf) -> None:
    put(shelf)
    assert shelf.find(key_of(1)) is None


def test_a_verified_plan_stays_verified_with_its_figures(shelf: PlanShelf, folder: Path) -> None:
    shelf.verified(put(shelf), {"max_abs_error": 0.01, "p50_ms": 2.0})
    found = opened(folder).find(KEY)
    assert found is not None
    assert found.sidecar.verified
    assert found.sidecar.figures == {"max_abs_error": 0.01, "p50_ms": 2.0}


def test_a_plan_that_is_built_anew_is_unverified_again(shelf: PlanShelf) -> None:
    shelf.verified(put(shelf), {})
    put(shelf, content=b"another")
    found = shelf.find(KEY)
    assert found is not None
    assert not found.sidecar.verified
    assert found.path.read_bytes() == b"another"


def test_folder_and_files_are_the_agents_alone(shelf: PlanShelf, folder: Path) -> None:
    before = os.umask(0)
    try:
        put(shelf)
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}


def test_a_folder_that_was_open_to_others_is_closed(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    opened(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


# -- what is not --------------------------------------------------------------------------------------------------------


def cut(plan: Plan) -> None:
    os.truncate(str(plan.path), plan.sidecar.size // 2)


def empty(plan: Plan) -> None:
    os.truncate(str(plan.path), 0)


def nul(plan: Plan) -> None:
    plan.path.write_bytes(b"\0" * plan.sidecar.size)


def one_bit(plan: Plan) -> None:
    data = bytearray(plan.path.read_bytes())
    data[len(data) // 2] ^= 1
    plan.path.write_bytes(data)


def longer(plan: Plan) -> None:
    with plan.path.open("ab") as file:
        file.write(b"x")


def no_sidecar(plan: Plan) -> None:
    plan.path.with_suffix(".json").unlink()


def sidecar_no_json(plan: Plan) -> None:
    plan.path.with_suffix(".json").write_bytes(b"{")


def sidecar_nul(plan: Plan) -> None:
    plan.path.with_suffix(".json").write_bytes(b"\0" * 100)


def sidecar_huge(plan: Plan) -> None:
    plan.path.with_suffix(".json").write_bytes(b" " * (2 << 20))


def sidecar_of_another_schema(plan: Plan) -> None:
    path = plan.path.with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))


def sidecar_of_another_key(plan: Plan) -> None:
    path = plan.path.with_suffix(".json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "key": key_of(1).digest}))


def open_to_others(plan: Plan) -> None:
    plan.path.chmod(0o622)


def sidecar_open_to_others(plan: Plan) -> None:
    plan.path.with_suffix(".json").chmod(0o666)


def link(plan: Plan) -> None:
    real = plan.path.parent.parent / "real.plan"
    plan.path.rename(real)
    plan.path.symlink_to(real)


def sidecar_link(plan: Plan) -> None:
    path, real = plan.path.with_suffix(".json"), plan.path.parent.parent / "real.json"
    path.rename(real)
    path.symlink_to(real)


DAMAGES = [
    cut, empty, nul, one_bit, longer, no_sidecar, sidecar_no_json, sidecar_nul, sidecar_huge, sidecar_of_another_schema,
    sidecar_of_another_key, open_to_others, sidecar_open_to_others, link, sidecar_link,
]  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: str(damage.__name__))
def test_a_damaged_plan_is_never_given_out_and_is_told_once(
    shelf: PlanShelf, folder: Path, damage: Callable[[Plan], None], caplog: pytest.LogCaptureFixture
) -> None:
    damage(shelf.verified(put(shelf), {}))
    other = put(shelf, key_of(5))
    fresh = opened(folder)
    with caplog.at_level(logging.WARNING):
        assert fresh.find(KEY) is None
        assert fresh.find(KEY) is None
    assert len(caplog.records) == 1
    assert KEY.digest in caplog.records[0].getMessage()
    assert names(folder) == [other.path.with_suffix(".json").name, other.path.name]
    assert put(fresh).path.exists()
    assert fresh.find(KEY) is not None


def test_a_folder_in_the_place_of_a_plan_is_no_plan(shelf: PlanShelf, folder: Path) -> None:
    plan = put(shelf)
    plan.path.unlink()
    plan.path.mkdir()
    assert shelf.find(KEY) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to give a file away")
def test_a_plan_of_another_user_is_none(shelf: PlanShelf) -> None:
    plan = put(shelf)
    os.chown(str(plan.path), 12345, -1)
    assert shelf.find(KEY) is None


def test_a_read_that_fails_says_nothing_about_the_plan_which_stays(shelf: PlanShelf, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = put(shelf)
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing(os.open, plan.path, errno.EIO))
        assert shelf.find(KEY) is None
    assert shelf.find(KEY) == plan


def failing(real: Callable[..., Any], path: Path, number: int) -> Callable[..., Any]:
    """`real`, but for one path."""

    def call(name: Any, *args: Any, **options: Any) -> Any:
        if str(name) == str(path):
            raise OSError(number, os.strerror(number))
        return real(name, *args, **options)

    return call


def test_what_a_power_cut_left_half_written_is_removed_at_the_start(shelf: PlanShelf, folder: Path) -> None:
    shelf.temporary(KEY).write_bytes(b"half")
    (folder / (".%s.json.abc" % KEY.digest)).write_bytes(b"{")
    (folder / "tries.json").write_text("{}")
    (folder / key_of().timing_name).write_bytes(b"timing")
    opened(folder)
    assert names(folder) == sorted(["tries.json", KEY.timing_name])


# -- no room, no right to write -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["fsync", "replace", "fchmod"])
@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_a_plan_is_kept_whole_or_not_at_all_whatever_step_fails(
    shelf: PlanShelf, folder: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int, number: int
) -> None:
    calls: List[int] = []
    real = getattr(os, step)

    def fails(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == at + 1:
            raise OSError(number, os.strerror(number))
        return real(*args)

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fails)
        raised: List[errors.StoreError] = []
        try:
            put(shelf)
        except errors.StoreError as error:
            raised.append(error)
    for error in raised:
        assert isinstance(error, errors.StoreFull) == (number == errno.ENOSPC)
        assert "adder/1" in str(error)
    failed = len(calls) > at
    left = names(folder)
    assert left in ([], [KEY.digest + ".json", KEY.digest + ".plan"])
    assert (shelf.find(KEY) is not None) == bool(left) == (not raised)
    if not failed:
        assert left


def test_plans_that_were_refused_stay_so_when_a_new_one_cannot_be_made_durable(
    shelf: PlanShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = put(shelf, content=b"bad")
    shelf.quarantine(bad, "engine.verify_failed", "wrong")

    def fails(folder: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(plan_files, "_sync", fails)
        with pytest.raises(errors.StoreError):
            put(shelf)
    put(shelf, content=b"bad")
    assert shelf.find(KEY) is None


def test_an_empty_file_of_the_builder_is_no_plan(shelf: PlanShelf, folder: Path) -> None:
    with pytest.raises(errors.StoreError, match="empty"):
        put(shelf, content=b"")
    assert names(folder) == []


def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **options: Any) -> Any:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.mkstemp", refuse)
    for name in ("replace", "unlink", "fchmod"):
        monkeypatch.setattr(os, name, refuse)


def test_where_nothing_can_be_written_plans_are_found_all_the_same(
    shelf: PlanShelf, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = put(shelf)
    with monkeypatch.context() as patch:
        read_only(patch)
        fresh = opened(folder)
        assert fresh.find(KEY) == plan
        assert fresh.trim([]) == []
        assert fresh.verified(plan, {"p50_ms": 1.0}).sidecar.verified


def test_where_nothing_can_be_written_a_bad_plan_is_still_not_given_out_again(
    shelf: PlanShelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = put(shelf)
    with monkeypatch.context() as patch:
        read_only(patch)
        shelf.quarantine(plan, "plan.foreign", "of another version")
        assert shelf.find(KEY) is None
        refusal = shelf.refused(KEY)
        assert refusal is not None
        assert refusal.reason == "of another version"


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "plans").write_text("a file")
    with pytest.raises(errors.StoreError, match="plans"):
        opened(tmp_path / "plans")


# -- the bad ones -------------------------------------------------------------------------------------------------------


def test_of_a_bad_plan_the_reason_stays_and_the_bytes_go(shelf: PlanShelf, folder: Path) -> None:
    shelf.quarantine(shelf.verified(put(shelf), {}), "engine.verify_failed", "outputs differ by 3.5")
    fresh = opened(folder)
    refusal = fresh.refused(KEY)
    assert refusal is not None
    assert (refusal.code, refusal.reason) == ("engine.verify_failed", "outputs differ by 3.5")
    assert refusal.at.endswith("Z")
    assert fresh.find(KEY) is None
    assert names(folder) == [KEY.digest + ".json"]


def test_a_new_plan_takes_the_place_of_a_bad_one(shelf: PlanShelf) -> None:
    shelf.quarantine(put(shelf), "plan.foreign", "")
    put(shelf, content=b"better")
    assert shelf.refused(KEY) is None
    assert shelf.find(KEY) is not None


def test_the_very_plan_that_was_bad_is_never_given_out_again(shelf: PlanShelf) -> None:
    for _ in range(2):
        shelf.quarantine(put(shelf, content=b"bad"), "plan.foreign", "")
    put(shelf, content=b"better")
    put(shelf, content=b"bad")
    assert shelf.find(KEY) is None


def test_a_bad_plan_whose_bytes_come_back_is_not_given_out(shelf: PlanShelf) -> None:
    plan = put(shelf)
    data = plan.path.read_bytes()
    shelf.quarantine(plan, "plan.foreign", "")
    plan.path.write_bytes(data)
    plan.path.chmod(0o600)
    assert shelf.find(KEY) is None


# -- beside the model ---------------------------------------------------------------------------------------------------


@pytest.fixture
def onnx(tmp_path: Path, shelf: PlanShelf) -> Path:
    """A model with a plan and its sidecar beside it, as an operator copied them from a shelf."""
    version = tmp_path / "adder" / "1"
    version.mkdir(parents=True)
    (version / "model.onnx").write_bytes(b"onnx")
    plan = put(shelf, content=b"beside")
    plan.path.rename(version / "model.plan")
    plan.path.with_suffix(".json").rename(version / "model.plan.json")
    return version / "model.onnx"


def test_a_plan_beside_its_onnx_is_used_when_its_sidecar_is_right(shelf: PlanShelf, onnx: Path) -> None:
    plan = shelf.beside(onnx, KEY)
    assert plan is not None
    assert plan.path == onnx.with_name("model.plan")


def test_a_plan_beside_its_onnx_of_another_key_is_not_used(shelf: PlanShelf, onnx: Path) -> None:
    assert shelf.beside(onnx, key_of(1)) is None


@pytest.mark.parametrize("damage", [cut, empty, one_bit, nul, open_to_others, link], ids=lambda damage: str(damage.__name__))
def test_a_damaged_plan_beside_its_onnx_is_not_used_and_not_removed(
    shelf: PlanShelf, onnx: Path, damage: Callable[[Plan], None]
) -> None:
    plan = shelf.beside(onnx, KEY)
    assert plan is not None
    damage(plan)
    assert shelf.beside(onnx, KEY) is None
    assert names(onnx.parent) == ["model.onnx", "model.plan", "model.plan.json"]


@pytest.mark.parametrize("content", [None, b"", b"{", b"\0" * 9, b'{"schema": 7}'])
def test_a_plan_beside_its_onnx_without_a_valid_sidecar_is_not_used(shelf: PlanShelf, onnx: Path, content: Any) -> None:
    path = onnx.with_name("model.plan.json")
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert shelf.beside(onnx, KEY) is None
    assert onnx.with_name("model.plan").exists()


def test_a_group_may_write_to_the_operators_own_plan(shelf: PlanShelf, onnx: Path) -> None:
    onnx.with_name("model.plan").chmod(0o664)
    assert shelf.beside(onnx, KEY) is not None


def test_a_plan_beside_its_onnx_is_verified_there(shelf: PlanShelf, onnx: Path) -> None:
    plan = shelf.beside(onnx, KEY)
    assert plan is not None
    shelf.verified(plan, {"p50_ms": 1.0})
    again = shelf.beside(onnx, KEY)
    assert again is not None
    assert again.sidecar.verified


def test_a_bad_plan_beside_its_onnx_stays_there_and_is_never_used_again(shelf: PlanShelf, folder: Path, onnx: Path) -> None:
    plan = shelf.beside(onnx, KEY)
    assert plan is not None
    shelf.quarantine(plan, "plan.foreign", "of another version")
    put(shelf, content=b"built here")
    fresh = opened(folder)
    assert fresh.beside(onnx, KEY) is None
    assert fresh.find(KEY) is not None
    assert onnx.with_name("model.plan").read_bytes() == b"beside"


# -- the bound ----------------------------------------------------------------------------------------------------------


def total(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def test_over_fifty_versions_the_shelf_stays_under_its_bound(folder: Path) -> None:
    shelf = opened(folder, max_bytes=100_000)
    for number in range(50):
        (folder / ("timing-%016x.cache" % (number // 3))).write_bytes(b"t" * 5000)
        put(shelf, key_of(number), bytes([number]) * (10_000 + 137 * number))
        shelf.trim([key_of(number).digest, key_of(number - 1).digest])
        assert total(folder) <= 100_000
        assert shelf.find(key_of(number)) is not None
        assert number == 0 or shelf.find(key_of(number - 1)) is not None


def test_the_oldest_goes_first_whatever_the_clock_says(folder: Path) -> None:
    shelf = opened(folder, max_bytes=25_000)
    for number in range(3):
        put(shelf, key_of(number), b"p" * 8000)
        for path in folder.glob(key_of(number).digest + "*"):
            os.utime(str(path), (1000 - number, 1000 - number))  # the board has no clock: later is earlier
    fresh = opened(folder, max_bytes=25_000)
    put(fresh, key_of(3), b"p" * 8000)
    removed = fresh.trim([])
    assert [gone.key for gone in removed] == [key_of(0).digest, key_of(1).digest]
    assert fresh.find(key_of(2)) is not None
    assert fresh.find(key_of(3)) is not None


def test_what_is_in_use_stays_even_over_the_bound_and_that_is_told_once(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    shelf = opened(folder, max_bytes=1000)
    put(shelf, KEY, b"p" * 8000)
    put(shelf, key_of(1), b"p" * 8000)
    with caplog.at_level(logging.WARNING):
        shelf.trim([KEY.digest])
        shelf.trim([KEY.digest])
    assert shelf.find(KEY) is not None
    assert shelf.find(key_of(1)) is None
    assert len(caplog.records) == 1


def test_under_the_bound_nothing_goes(shelf: PlanShelf) -> None:
    for number in range(10):
        put(shelf, key_of(number))
    assert shelf.trim([]) == []
    assert shelf.find(KEY) is not None


def test_reasons_of_bad_plans_are_bounded_too(folder: Path) -> None:
    shelf = opened(folder, max_bytes=1 << 30)
    for number in range(300):
        (folder / (key_of(number).digest + ".json")).write_bytes(
            Sidecar.of(key_of(number), "m/1", "fp16", "")
            .refuse("x", "y", "z")
            .encode()
            .replace(b'"sha256": ""', b'"sha256": "%064d"' % 0)
        )
    shelf.trim([])
    assert len(names(folder)) == 256


def test_timing_caches_are_few_and_the_newest_stay(folder: Path) -> None:
    shelf = opened(folder, max_bytes=800_000)
    for number in range(20):
        path = folder / ("timing-%016x.cache" % number)
        path.write_bytes(b"t" * 1000)
        os.utime(str(path), (number, number))
    shelf.trim([])
    assert names(folder) == ["timing-%016x.cache" % number for number in range(12, 20)]


def test_files_that_are_not_the_shelfs_are_left_alone(shelf: PlanShelf, folder: Path) -> None:
    (folder / "tries.json").write_bytes(b"x" * (2 << 20))
    (folder / "notes.txt").write_text("by hand")
    shelf.trim([])
    assert names(folder) == ["notes.txt", "tries.json"]
