"""How often a plan is tried: few times a boot, with pauses, over any number of restarts."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import Any, List, Optional

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.engines.plans.tries import TRIES_A_BOOT, Tries


class BootClock(Clock):
    """Time since a boot that a test chooses."""

    def __init__(self, boot_id: str = "boot-1", now_s: float = 1000.0) -> None:
        super().__init__(boot_id)
        self.now_s = now_s

    def monotonic(self) -> float:
        return self.now_s

    def monotonic_ns(self) -> int:
        return int(self.now_s * 1e9)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tries.json"


@pytest.fixture
def clock() -> BootClock:
    return BootClock()


def loaded(path: Path, clock: Clock) -> Tries:
    tries = Tries(path, clock)
    tries.load()
    return tries


def fail(tries: Tries, key: str = "k", permanent: bool = False) -> None:
    tries.begin(key)
    tries.failed(key, "build.failed", "no luck", permanent)


def wait_out(tries: Tries, clock: BootClock, key: str = "k") -> None:
    wait_s = tries.may_try(key)
    assert wait_s is not None
    clock.now_s += wait_s


def test_a_key_that_never_failed_may_be_tried_at_once(path: Path, clock: BootClock) -> None:
    assert loaded(path, clock).may_try("k") == 0.0


def test_pauses_grow_and_the_third_failure_is_the_last_of_the_boot(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    waits: List[Optional[float]] = []
    for _ in range(TRIES_A_BOOT):
        fail(tries)
        waits.append(tries.may_try("k"))
        clock.now_s += waits[-1] or 0.0
    assert waits == [30.0, 120.0, None]
    assert tries.code("k") == "build.failed"
    assert tries.reason("k") == "no luck"


def test_a_pause_passes_with_time(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    fail(tries)
    clock.now_s += 20
    assert tries.may_try("k") == pytest.approx(10)
    clock.now_s += 100
    assert tries.may_try("k") == 0.0


def test_an_agent_that_restarts_in_a_loop_gets_no_more_tries(path: Path, clock: BootClock) -> None:
    made = 0
    for _ in range(20):
        tries = loaded(path, clock)
        wait_s = tries.may_try("k")
        if wait_s is not None:
            clock.now_s += wait_s
            fail(tries)
            made += 1
    assert made == TRIES_A_BOOT


def test_a_pause_goes_on_over_a_restart_of_the_agent(path: Path, clock: BootClock) -> None:
    fail(loaded(path, clock))
    clock.now_s += 5
    assert loaded(path, clock).may_try("k") == pytest.approx(25)


def test_a_later_boot_gives_three_more_after_a_pause(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    for _ in range(TRIES_A_BOOT):
        fail(tries)
    later = BootClock("boot-2", now_s=60.0)
    tries = loaded(path, later)
    assert tries.may_try("k") == pytest.approx(420)  # 480 s from the boot: a build that takes the box down leaves it time
    made = 0
    while tries.may_try("k") is not None:
        wait_out(tries, later)
        fail(tries)
        made += 1
    assert made == TRIES_A_BOOT


def test_what_cannot_help_is_never_tried_again_until_the_key_changes(path: Path, clock: BootClock) -> None:
    fail(loaded(path, clock), permanent=True)
    tries = loaded(path, BootClock("boot-2", 1e6))
    assert tries.may_try("k") is None
    assert tries.permanent("k")
    assert tries.may_try("another key") == 0.0


def test_a_build_that_took_the_agent_down_has_failed(path: Path, clock: BootClock) -> None:
    loaded(path, clock).begin("k")
    tries = loaded(path, clock)
    assert tries.tries("k") == 1
    assert tries.may_try("k") == pytest.approx(30)
    assert tries.code("k") == "build.killed"


def test_a_build_that_takes_the_agent_down_each_time_is_given_up(path: Path, clock: BootClock) -> None:
    for _ in range(TRIES_A_BOOT):
        tries = loaded(path, clock)
        wait_out(tries, clock)
        tries.begin("k")
    assert loaded(path, clock).may_try("k") is None


def test_a_build_that_the_agent_called_off_does_not_count(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    for _ in range(10):
        assert tries.may_try("k") == 0.0
        tries.begin("k")
        tries.cancel("k")
    assert loaded(path, clock).may_try("k") == 0.0


def test_calling_off_what_has_not_begun_changes_nothing(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    fail(tries)
    tries.cancel("k")
    tries.cancel("unknown")
    assert tries.tries("k") == 1


def test_a_failure_without_a_beginning_counts_too(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    tries.failed("k", "engine.verify_failed", "wrong", False)
    assert tries.tries("k") == 1


def test_what_is_built_or_wanted_anew_starts_afresh(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    fail(tries, permanent=True)
    tries.clear("k")
    assert tries.may_try("k") == 0.0
    assert loaded(path, clock).reason("k") == ""


def test_a_plan_that_was_built_and_failed_later_is_not_built_for_ever(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    for _ in range(TRIES_A_BOOT):
        wait_out(tries, clock)
        tries.begin("k")
        tries.succeeded("k")
        assert loaded(path, clock).code("k") == ""
        tries.failed("k", "engine.plan_refused", "it ends its host", False)
    assert tries.may_try("k") is None


def test_a_plan_that_was_built_well_and_got_lost_is_built_again_however_often(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    for _ in range(TRIES_A_BOOT + 1):
        assert tries.may_try("k") == 0.0
        tries.begin("k")
        tries.succeeded("k")


def test_no_more_than_a_bounded_number_of_keys_is_kept(path: Path, clock: BootClock) -> None:
    tries = loaded(path, clock)
    for index in range(300):
        tries.failed("key-%d" % index, "build.failed", "\u4e2d" * 5000, True)
    again = loaded(path, clock)
    assert again.permanent("key-299")
    assert not again.permanent("key-0")
    assert path.stat().st_size < 2_000_000


DAMAGED: Any = {
    "empty": b"",
    "no_json": b"{",
    "list": b"[]",
    "nul": b"\0" * 100,
    "no_utf8": b"\xff\xfe",
    "other_schema": json.dumps({"schema": 99, "keys": {}}).encode(),
    "keys_a_list": json.dumps({"schema": 1, "keys": []}).encode(),
    "entry_a_number": json.dumps({"schema": 1, "keys": {"k": 5}}).encode(),
    "entry_of_other_fields": json.dumps({"schema": 1, "keys": {"k": {"hello": 1}}}).encode(),
    "tries_a_text": json.dumps({"schema": 1, "keys": {"k": {"tries": "3"}}}).encode(),
    "deep": b"[" * 100_000,
    "huge": b" " * (9 << 20),
}


@pytest.mark.parametrize("kind", sorted(DAMAGED))
def test_a_damaged_file_is_none_and_is_told(path: Path, clock: BootClock, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    path.write_bytes(DAMAGED[kind])
    with caplog.at_level(logging.WARNING):
        tries = loaded(path, clock)
    assert tries.may_try("k") == 0.0
    assert len([record for record in caplog.records if "forgotten" in record.getMessage()]) == 1
    fail(tries)
    assert loaded(path, clock).tries("k") == 1


def test_where_nothing_can_be_written_the_tries_count_all_the_same(
    tmp_path: Path, clock: BootClock, caplog: pytest.LogCaptureFixture
) -> None:
    tries = loaded(tmp_path / "missing" / "tries.json", clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(TRIES_A_BOOT):
            fail(tries)
    assert tries.may_try("k") is None
    assert len(caplog.records) == 1
    assert not os.listdir(str(tmp_path))


@pytest.mark.parametrize(
    "odd", [{"tries": -1}, {"failures": -5}, {"at_ns": 10**400}, {"at_ns": -(10**30)}, {"at_ns": 2**62}], ids=str
)
def test_numbers_that_cannot_be_are_brought_to_what_can(path: Path, clock: BootClock, odd: Any) -> None:
    fail(loaded(path, clock))
    document = json.loads(path.read_text())
    document["keys"]["k"].update(odd)
    path.write_text(json.dumps(document))
    tries = loaded(path, clock)
    assert tries.tries("k") >= 0
    wait_s = tries.may_try("k")
    assert wait_s is not None
    assert 0 <= wait_s <= 480
    clock.now_s += wait_s
    assert tries.may_try("k") == 0.0
