"""A version that has served well for long is not taken back by itself any more."""

from __future__ import annotations

import asyncio
import contextlib
import json

import pytest

from edge_agent import errors
from edge_agent.serving.promotion.ledger import FILE_NAME, Ledger, Record
from edge_agent.serving.promotion.probation import ANSWERS, SERVICE_S, Probation, is_over
from tests.promotion_rig import add_tricks_version, kinds, shown, until
from tests.serving_rig import picture, running

PLAIN = "max_batch_size = 8\n"


class Version:
    """Answers."""

    def __init__(self, version="2"):
        self.name, self.version = "one", version


class Hands:
    """A clock that a test sets."""

    def __init__(self):
        self.at = 0.0

    def monotonic(self):
        return self.at


def ledger_with(folder, record):
    ledger = Ledger(folder)
    ledger.put("one", record)
    return ledger


async def test_a_thousand_good_answers_end_it_over_restarts(tmp_path):
    ledger, hands = ledger_with(tmp_path, Record(2, 1)), Hands()
    for part in (400, 599):
        probation = Probation(ledger, hands)
        for _ in range(part):
            probation.answered(Version())
        await probation.stop()
        ledger = Ledger(tmp_path)
        ledger.load()
        assert not is_over(ledger.of("one"))
    assert ledger.of("one").answered == ANSWERS - 1
    probation = Probation(ledger, hands)
    probation.answered(Version())
    assert is_over(ledger.of("one"))
    await probation.stop()


async def test_an_hour_of_service_ends_it_and_an_idle_hour_does_not():
    ledger, hands = ledger_with(None, Record(2, 1)), Hands()
    probation = Probation(ledger, hands)
    for _ in range(3):
        probation.answered(Version())
        hands.at += SERVICE_S
    assert not is_over(ledger.of("one"))
    for _ in range(int(SERVICE_S / 9) + 1):
        hands.at += 9
        probation.answered(Version())
    assert is_over(ledger.of("one"))
    await probation.stop()


async def test_answers_of_another_version_or_without_a_change_do_not_count():
    for record, version in ((Record(2, 1), "1"), (Record(2, None), "2")):
        ledger = ledger_with(None, record)
        probation = Probation(ledger, Hands())
        for _ in range(ANSWERS):
            probation.answered(Version(version))
        await probation.stop()
        assert ledger.of("one").answered == 0


async def test_a_change_in_between_begins_anew():
    ledger = ledger_with(None, Record(2, 1))
    probation = Probation(ledger, Hands())
    for _ in range(99):
        probation.answered(Version())
    ledger.put("one", Record(3, 2))
    await probation.stop()
    assert ledger.of("one") == Record(3, 2)


@pytest.mark.parametrize("wrong", ["many", True, None])
def test_a_count_that_is_none_is_not_believed(tmp_path, caplog, wrong):
    entry = {"active": 2, "previous": 1, "candidate": None, "refused": {}, "answered": wrong}
    (tmp_path / FILE_NAME).write_text(json.dumps({"form": 1, "models": {"one": entry}}))
    ledger = Ledger(tmp_path)
    ledger.load()
    assert ledger.of("one") == Record()
    assert "cannot be read" in caplog.text


async def test_harmful_requests_long_after_the_change_stop_the_version_and_do_not_undo_the_change(tmp_path):
    repository = tmp_path / "models"
    options = {"control_mode": "poll", "poll_interval_s": 0.1, "state_dir": tmp_path}
    for version in (1, 2):
        add_tricks_version(repository, "eye", version, PLAIN)
        async with running(repository, **options) as rig:
            assert rig.serving.lookup("eye").version == str(version)
    async with running(repository, **options) as rig:

        async def client():
            for _ in range(ANSWERS // 8):
                await rig.ask("eye", picture(3), names=("image",), decode=True)

        await asyncio.gather(*(client() for _ in range(8)))
    async with running(repository, **options) as rig:
        end = rig.clock.monotonic() + 40
        while shown(rig, "eye").get("2", {"code": "model.rolled_back"})["code"] not in ("model.stopped", "model.rolled_back"):
            assert rig.clock.monotonic() < end, rig.serving.status()
            with contextlib.suppress(errors.EdgeAgentError):
                await rig.ask("eye", picture(14), names=("image",), decode=True)
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.5)
        assert kinds(rig, "eye") == []
        assert shown(rig, "eye")["2"]["code"] == "model.stopped"
        record = json.loads((tmp_path / FILE_NAME).read_text())["models"]["eye"]
        assert (record["active"], record["previous"], record["refused"]) == (2, 1, {})
        await rig.serving.roll_back("eye")
        await until(lambda: rig.serving.is_ready("eye"), tell=rig.serving.status)
        assert rig.serving.lookup("eye").version == "1"
