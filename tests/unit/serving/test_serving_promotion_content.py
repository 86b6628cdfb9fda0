from __future__ import annotations

import os
import shutil

from edge_agent.serving.promotion.content import UNREAD, Contents
from edge_agent.serving.repository import marked, read_model
from tests.serving_rig import add_model


def words(folder, contents=None):
    entry, marks = marked(read_model(folder.parent, folder))
    return (contents or Contents()).words(entry, marks)


def test_files_that_are_touched_or_copied_stay_the_same_and_others_are_others(tmp_path):
    folder = add_model(tmp_path, "add", "mean_colour.onnx", "max_batch_size = 8\n")
    first = words(folder)
    os.utime(str(folder / "config.toml"))
    shutil.copy(str(folder / "1/model.onnx"), str(folder / "1/new"))
    os.replace(str(folder / "1/new"), str(folder / "1/model.onnx"))
    assert words(folder) == first
    (folder / "config.toml").write_text("max_batch_size = 4\n")
    assert words(folder)[1].split(":")[0] == first[1].split(":")[0]
    assert words(folder)[1] != first[1]
    (folder / "1/labels.txt").write_text("cat")
    assert words(folder)[1].split(":")[0] != first[1].split(":")[0]


def test_what_was_read_once_is_known_when_the_file_is_another_one(tmp_path):
    folder, contents = add_model(tmp_path, "add", "mean_colour.onnx"), Contents()
    entry, marks = marked(read_model(tmp_path, folder))
    assert contents.known(entry, 1, marks[1]) is None
    first = contents.words(entry, marks)
    (folder / "1/model.onnx").write_bytes(b"another")
    assert contents.known(entry, 1, marks[1]) == first[1]


def test_a_file_that_changes_as_it_is_read_or_is_gone_is_not_known(tmp_path):
    folder = add_model(tmp_path, "add", "mean_colour.onnx")
    entry, marks = marked(read_model(tmp_path, folder))
    (folder / "1/model.onnx").write_bytes(b"another")
    assert Contents().words(entry, marks) == {1: UNREAD}
    (folder / "1/model.onnx").unlink()
    assert Contents().words(entry, marks) == {1: UNREAD}
