from __future__ import annotations

import os
import shutil

from edge_agent.serving.promotion.content import UNREAD, Contents
from edge_agent.serving.repository import marked, read_model
from tests.promotion_rig import spoil
from tests.serving_rig import add_model


def word(folder, contents=None, number=1):
    entry, marks = marked(read_model(folder.parent, folder))
    return (contents or Contents()).word(entry, number, marks[number])


def test_files_that_are_touched_or_copied_stay_the_same_and_others_are_others(tmp_path):
    folder = add_model(tmp_path, "add", "mean_colour.onnx", "max_batch_size = 8\n")
    first = word(folder)
    os.utime(str(folder / "config.toml"))
    shutil.copy(str(folder / "1/model.onnx"), str(folder / "1/new"))
    os.replace(str(folder / "1/new"), str(folder / "1/model.onnx"))
    assert word(folder) == first
    (folder / "config.toml").write_text("max_batch_size = 4\n")
    assert word(folder).split(":")[0] == first.split(":")[0]
    assert word(folder) != first
    (folder / "1/labels.txt").write_text("cat")
    assert word(folder).split(":")[0] != first.split(":")[0]


def test_a_file_that_changes_as_it_is_read_or_is_gone_is_not_known(tmp_path):
    folder = add_model(tmp_path, "add", "mean_colour.onnx")
    entry, marks = marked(read_model(tmp_path, folder))
    (folder / "1/model.onnx").write_bytes(b"another")
    assert Contents().word(entry, 1, marks[1]) == UNREAD
    (folder / "1/model.onnx").unlink()
    assert Contents().word(entry, 1, marks[1]) == UNREAD


def test_however_many_files_there_are_only_those_that_changed_are_read_again(tmp_path):
    folder, contents = add_model(tmp_path, "add", "mean_colour.onnx"), Contents()
    for number in range(5000):
        (folder / "1" / ("weight%d" % number)).touch()
    first = word(folder, contents)
    spoil(folder / "1/model.onnx")  # whoever reads it sees it
    assert word(folder, contents) == first
    (folder / "1/weight7").write_bytes(b"another")
    changed = word(folder, contents)
    assert changed != first
    (folder / "1/weight7").write_bytes(b"")
    assert word(folder, contents) == first
    assert word(folder) != first


def test_what_belongs_to_all_versions_is_read_once(tmp_path):
    folder, contents = add_model(tmp_path, "add", "mean_colour.onnx", "max_batch_size = 8\n"), Contents()
    add_model(tmp_path, "add", "mean_colour.onnx", version=2)
    (folder / "labels.txt").write_text("cat")
    both = [word(folder, number=number) for number in (1, 2)]
    assert word(folder, contents, 1) == both[0]
    spoil(folder / "labels.txt")
    assert word(folder, contents, 2) == both[1]


def test_a_version_that_is_forgotten_is_read_again(tmp_path):
    folder, contents = add_model(tmp_path, "add", "mean_colour.onnx"), Contents()
    add_model(tmp_path, "add", "mean_colour.onnx", version=2)
    first = [word(folder, contents, number) for number in (1, 2)]
    contents.keep_only("add", [2])
    for number in (1, 2):
        spoil(folder / str(number) / "model.onnx")
    assert word(folder, contents, 1) != first[0]
    assert word(folder, contents, 2) == first[1]


def test_the_digest_of_one_file_is_known_after_the_version_was_read(tmp_path):
    folder, contents = add_model(tmp_path, "add", "mean_colour.onnx"), Contents()
    entry, marks = marked(read_model(tmp_path, folder))
    assert contents.sum_of(entry, 1, folder / "1/model.onnx") == ""
    contents.word(entry, 1, marks[1])
    assert len(contents.sum_of(entry, 1, folder / "1/model.onnx")) == 64
    assert contents.sum_of(entry, 1, folder / "1/other") == ""
