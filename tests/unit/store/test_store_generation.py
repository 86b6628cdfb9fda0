from __future__ import annotations

import pytest

from edge_agent.store.generation import Mark, choose, read_mark, uid, write_mark

META = {"generation": "0a0a0a0a", "board_serial": "S1"}
SEQUENCES = {"result": 10, "event": 3}
MARK = Mark("0a0a0a0a", {"result": 10, "event": 3})


@pytest.mark.parametrize(
    ("meta", "sequences", "mark", "serial", "kept"),
    [
        (META, SEQUENCES, MARK, "S1", True),
        (META, {"result": 11, "event": 3}, MARK, "S1", True),
        (META, SEQUENCES, MARK, "", True),  # a board that does not tell its serial
        ({"generation": "0a0a0a0a"}, SEQUENCES, MARK, "S1", True),
        (META, SEQUENCES, MARK, "S2", False),  # a cloned card
        (META, {"result": 9, "event": 3}, MARK, "S1", False),  # an older copy
        (META, {"result": 10, "event": 2}, MARK, "S1", False),
        (META, {}, MARK, "S1", False),
        (META, SEQUENCES, None, "S1", False),  # a file that was put here
        (META, SEQUENCES, Mark("0b0b0b0b", {}), "S1", False),
        ({}, {}, None, "S1", False),
    ],
)
def test_a_file_that_may_be_a_copy_gets_a_new_generation(meta, sequences, mark, serial, kept):
    chosen = choose(meta, sequences, mark, serial)
    assert (chosen == "0a0a0a0a") is kept
    assert len(chosen) == 8
    int(chosen, 16)


def test_a_mark_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "store.mark"
    assert read_mark(path) is None
    write_mark(path, MARK)
    write_mark(path, Mark("0a0a0a0a", {"result": 11}))
    assert read_mark(path) == Mark("0a0a0a0a", {"result": 11, "event": 0})
    assert [p.name for p in tmp_path.iterdir()] == ["store.mark"]


@pytest.mark.parametrize(
    "content", [b"", b"\0\0\0", b"[]", b'{"generation": "x"}', b'{"generation": "x", "result": "y", "event": 1}']
)
def test_a_damaged_mark_is_none(tmp_path, content):
    path = tmp_path / "store.mark"
    path.write_bytes(content)
    assert read_mark(path) is None


def test_a_mark_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with pytest.raises(OSError, match="missing"):
        write_mark(tmp_path / "missing" / "store.mark", MARK)
    (tmp_path / "store.mark").mkdir()
    with pytest.raises(OSError, match="store.mark"):
        write_mark(tmp_path / "store.mark", MARK)
    assert [p.name for p in tmp_path.iterdir()] == ["store.mark"]


def test_a_uid_names_agent_generation_kind_and_number():
    assert uid("box", "0a0a0a0a", "result", 7) == "box/0a0a0a0a/result/7"
