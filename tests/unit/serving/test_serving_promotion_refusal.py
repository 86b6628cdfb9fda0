"""A refusal holds until a version's files hold something else, and their bytes are read only where they look otherwise."""

from __future__ import annotations

import hashlib
import os

import pytest

from edge_agent.serving.promotion.content import Contents
from edge_agent.serving.promotion.refusal import Refusal, made_of_files, mark_of, still_refused
from edge_agent.serving.repository import digest, marked, read_model
from tests.promotion_rig import spoil
from tests.serving_rig import add_model


@pytest.fixture
def folder(tmp_path):
    return add_model(tmp_path, "add", "mean_colour.onnx", "max_batch_size = 8\n")


def refused(folder, code="model.shadow_rejected", sha256=""):
    entry, marks = marked(read_model(folder.parent, folder))
    fingerprint, seen = made_of_files(entry, 1, marks[1], Contents(), sha256)
    return Refusal(fingerprint, code, "", "", seen)


def still(folder, refusal):
    entry, marks = marked(read_model(folder.parent, folder))
    return still_refused({1: refusal}, entry, marks, Contents()).get(1)


def test_files_that_look_as_they_did_are_not_read(folder):
    refusal = refused(folder)
    spoil(folder / "1/model.onnx")
    assert still(folder, refusal) == refusal


def test_files_that_were_touched_are_read_once_and_looked_at_again_as_they_are_then(folder):
    refusal = refused(folder)
    os.utime(str(folder / "1/model.onnx"))
    renewed = still(folder, refusal)
    assert (renewed.fingerprint, renewed.seen != refusal.seen) == (refusal.fingerprint, True)
    spoil(folder / "1/model.onnx")
    assert still(folder, renewed) == renewed


@pytest.mark.parametrize("code", ["model.shadow_rejected", "model.rolled_back"])
def test_other_content_is_another_version(folder, code):
    refusal = refused(folder, code)
    (folder / "1/model.onnx").write_bytes(b"another")
    assert still(folder, refusal) is None


def test_what_an_operator_took_back_is_judged_by_its_own_files_and_all_else_by_what_it_is_made_of(folder):
    by_hand, by_itself = refused(folder, "model.rolled_back"), refused(folder)
    (folder / "config.toml").write_text("max_batch_size = 4\n")
    assert still(folder, by_hand).fingerprint == by_hand.fingerprint
    assert still(folder, by_itself) is None


def old(folder, code="model.rolled_back"):
    """As it was written before the content counted."""
    _, marks = marked(read_model(folder.parent, folder))
    fields = {"fingerprint": mark_of(marks[1]), "code": code, "reason": "bad", "at": ""}
    return Refusal.from_json(fields, 1)


def test_a_refusal_of_the_old_form_holds_until_the_files_change_by_the_old_measure_and_goes_by_content_from_then_on(folder):
    refusal = old(folder)
    renewed = still(folder, refusal)
    assert (renewed.fingerprint, renewed.seen, renewed.reason) == (refused(folder).fingerprint, refusal.seen, "bad")
    os.utime(str(folder / "1/model.onnx"))
    assert still(folder, renewed) is not None
    assert still(folder, refusal) is None


def test_form_one_with_content_is_read_as_such():
    fields = {"fingerprint": "own:all", "code": "model.stopped", "reason": "", "at": ""}
    assert Refusal.from_json(fields, 1) == Refusal("own:all", "model.stopped", "", "")
    assert Refusal.from_json({**fields, "fingerprint": "abc"}, 2) == Refusal("abc", "model.stopped", "", "")


def test_a_version_that_is_away_stays_refused(folder, tmp_path):
    refusal = refused(folder)
    add_model(tmp_path, "add", "mean_colour.onnx", version=2)
    os.rename(str(folder / "1"), str(folder / "x1"))
    assert still(folder, refusal) == refusal


def test_what_cannot_be_read_is_not_known_to_be_another_version(folder):
    refusal = refused(folder)
    os.utime(str(folder / "1/model.onnx"))
    entry, marks = marked(read_model(folder.parent, folder))
    (folder / "1/model.onnx").unlink()
    assert still_refused({1: refusal}, entry, marks, Contents()) == {1: refusal}


def test_what_cannot_be_read_as_it_is_refused_stays_refused_while_it_looks_so_and_is_read_later(folder):
    entry, marks = marked(read_model(folder.parent, folder))
    held = folder / "1/held"
    os.rename(str(folder / "1/model.onnx"), str(held))
    fingerprint, seen = made_of_files(entry, 1, marks[1], Contents())
    assert (fingerprint, seen) == ("", mark_of(marks[1]))
    os.rename(str(held), str(folder / "1/model.onnx"))
    assert still(folder, Refusal(fingerprint, "model.stopped", "", "", seen)).fingerprint == refused(folder).fingerprint


def test_other_files_than_those_that_were_loaded_are_not_refused_with_them(folder):
    as_loaded = digest(folder / "1/model.onnx")
    os.utime(str(folder / "1/model.onnx"))
    assert still(folder, refused(folder, "model.rolled_back", as_loaded)) is not None
    (folder / "1/model.onnx").write_bytes(b"another")
    for code in ("model.rolled_back", "model.stopped"):
        assert still(folder, refused(folder, code, as_loaded)) is None


def test_those_that_are_remembered_are_not_without_end(folder):
    entry, marks = marked(read_model(folder.parent, folder))
    many = {number: Refusal("own:all", "model.stopped", "", "2026") for number in range(2, 1000)}
    many[2000] = Refusal("own:all", "model.stopped", "", "2027")
    kept = still_refused(many, entry, marks, Contents())
    assert len(kept) == 100
    assert 2000 in kept


def test_the_mark_tells_size_time_and_identity():
    marks = (("/m/1/model.onnx", 1, 2, 3),)
    assert mark_of(marks) == hashlib.sha256(b'[["/m/1/model.onnx", 1, 2, 3]]').hexdigest()
