from __future__ import annotations

import json
import os

import pytest

from edge_agent.serving.promotion.ledger import COPY_NAME, FILE_NAME, Ledger, Record
from edge_agent.serving.promotion.refusal import Refusal

REFUSAL = Refusal("own:all", "model.stopped", "it fell", "2026-01-01T00:00:00.000Z", "seen")


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
    b"", b"{", b"\xff\xfe", b"[]", b"null", b"{}", b'{"form": 3, "models": {}}', b'{"form": 1, "models": []}',
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
        "form": 2,
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


def test_what_was_refused_before_forms_had_content_is_still_known(tmp_path):
    refusal = {"fingerprint": "abc", "code": "model.rolled_back", "reason": "", "at": ""}
    entry = {"active": 1, "previous": None, "candidate": None, "refused": {"2": refusal}}
    (tmp_path / FILE_NAME).write_text(json.dumps({"form": 1, "models": {"face": entry}}))
    assert again(tmp_path).of("face").refused == {2: Refusal("", "model.rolled_back", "", "", "abc")}


def test_a_copy_that_cannot_be_written_is_told_as_that_and_nothing_is_lost(tmp_path, caplog):
    ledger = again(tmp_path)
    (tmp_path / COPY_NAME).mkdir()
    ledger.put("face", Record(1))
    ledger.save(*ledger.content())
    (told,) = [record for record in caplog.records if "cannot be written" in record.getMessage()]
    assert told.getMessage().startswith("%s cannot be written" % (tmp_path / COPY_NAME))
    assert told.levelname == "WARNING"
    assert again(tmp_path).of("face") == Record(1)
