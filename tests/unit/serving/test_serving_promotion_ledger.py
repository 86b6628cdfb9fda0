from __future__ import annotations

import json
import os

import pytest

from edge_agent.serving.promotion.ledger import COPY_NAME, FILE_NAME, Ledger, Record, Refusal

REFUSAL = Refusal("abc", "model.stopped", "it fell", "2026-01-01T00:00:00.000Z")


def again(folder):
    ledger = Ledger(folder)
    ledger.load()
    return ledger


def test_what_is_put_and_saved_is_there_after_a_restart(tmp_path):
    ledger = again(tmp_path)
    record = Record(2, 1, 3, {4: REFUSAL})
    assert ledger.put("face", record)
    ledger.save(*ledger.content())
    assert again(tmp_path).of("face") == record
    assert oct((tmp_path / FILE_NAME).stat().st_mode & 0o777) == "0o600"


def test_what_is_no_news_is_not_written(tmp_path):
    ledger = again(tmp_path)
    assert not ledger.put("face", None)
    ledger.put("face", Record(1))
    assert not ledger.put("face", Record(1))
    assert ledger.put("face", None)
    assert ledger.of("face") == Record()


def test_a_slow_save_does_not_undo_a_later_one(tmp_path):
    ledger = again(tmp_path)
    ledger.put("face", Record(1))
    early = ledger.content()
    ledger.put("face", Record(2))
    ledger.save(*ledger.content())
    ledger.save(*early)
    assert again(tmp_path).of("face") == Record(2)


DAMAGED = [
    b"", b"{", b"\xff\xfe", b"[]", b"null", b"{}", b'{"form": 2, "models": {}}', b'{"form": 1, "models": []}',
    b'{"form": 1, "models": {"face": {}}}',
    b'{"form": 1, "models": {"face": {"active": "1", "previous": null, "candidate": null, "refused": {}}}}',
    b'{"form": 1, "models": {"face": {"active": true, "previous": null, "candidate": null, "refused": {}}}}',
    b'{"form": 1, "models": {"face": {"active": 1, "previous": null, "candidate": null, "refused": {"x": {}}}}}',
    b'{"form": 1, "models": {"face": {"active": 1, "previous": null, "candidate": null, "refused": {"2": {"fingerprint": 1, '
    b'"code": "", "reason": "", "at": ""}}}}}',
    b"[" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_file_is_told_and_nothing_in_it_is_believed(tmp_path, caplog, content):
    (tmp_path / FILE_NAME).write_bytes(content)
    ledger = again(tmp_path)
    assert ledger.all() == {}
    assert FILE_NAME in caplog.text
    ledger.put("face", Record(1))
    ledger.save(*ledger.content())
    assert again(tmp_path).of("face") == Record(1)


def test_a_disk_that_cannot_be_written_is_told_and_tried_again_with_the_next_change(tmp_path, caplog, monkeypatch):
    ledger = again(tmp_path)
    ledger.put("face", Record(1))
    with monkeypatch.context() as full:
        full.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "No space left on device")))
        ledger.save(*ledger.content())
    assert "No space left" in caplog.text
    assert not (tmp_path / FILE_NAME).exists()
    ledger.put("car", Record(1))
    ledger.save(*ledger.content())
    assert sorted(again(tmp_path).all()) == ["car", "face"]


def test_without_a_folder_it_lasts_as_long_as_the_agent():
    ledger = again(None)
    ledger.put("face", Record(1))
    ledger.save(*ledger.content())
    assert ledger.of("face") == Record(1)


def test_the_file_is_json_that_people_can_read(tmp_path):
    ledger = again(tmp_path)
    ledger.put("face", Record(2, 1, None, {3: REFUSAL}))
    ledger.save(*ledger.content())
    assert json.loads((tmp_path / FILE_NAME).read_text()) == {
        "form": 1,
        "models": {"face": {"active": 2, "previous": 1, "candidate": None, "refused": {"3": REFUSAL.as_json()}}},
    }


@pytest.mark.parametrize("content", [*DAMAGED, None])
def test_of_a_damaged_file_the_copy_is_read(tmp_path, content):
    ledger = again(tmp_path)
    record = Record(1, None, None, {2: REFUSAL})
    ledger.put("face", record)
    ledger.save(*ledger.content())
    if content is None:
        (tmp_path / FILE_NAME).unlink()
    else:
        (tmp_path / FILE_NAME).write_bytes(content)
    ledger = again(tmp_path)
    assert ledger.of("face") == record
    assert not ledger.lost


def test_when_both_are_damaged_it_says_so(tmp_path):
    assert not again(tmp_path).lost
    for name in (FILE_NAME, COPY_NAME):
        (tmp_path / name).write_bytes(b"{")
    assert again(tmp_path).lost


def test_what_is_not_sure_is_kept(tmp_path):
    ledger = again(tmp_path)
    ledger.put("face", Record(1, unjudged=6, unsure=True))
    ledger.save(*ledger.content())
    assert again(tmp_path).of("face") == Record(1, unjudged=6, unsure=True)


def test_a_refusal_of_a_version_that_is_away_is_kept_and_those_are_not_without_end():
    record = Record(refused={2: REFUSAL, 3: REFUSAL})
    record.keep_refused({}, [1, 3])
    assert record.refused == {2: REFUSAL}
    record.refused = dict.fromkeys(range(1000), REFUSAL)
    record.keep_refused({2000: Refusal("abc", "model.stopped", "", "2027-01-01T00:00:00.000Z")}, [2000])
    assert len(record.refused) == 100
    assert 2000 in record.refused


def test_what_an_operator_took_back_is_judged_by_its_own_files_and_all_else_by_what_it_is_made_of():
    by_hand = Refusal("own:all", "model.rolled_back", "", "")
    assert by_hand.holds("own:other")
    assert not by_hand.holds("new:other")
    by_itself = Refusal("own:all", "model.shadow_rejected", "", "")
    assert by_itself.holds("own:all")
    assert not by_itself.holds("own:other")
    assert by_itself.holds("?")
