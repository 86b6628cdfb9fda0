"""Which files an ONNX model consists of, and its digest over all of them."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any, Callable, Tuple

import numpy
import onnxruntime
import pytest

from edge_agent import errors
from edge_agent.engines.plans import digest as digest_module
from edge_agent.engines.plans import onnx_files
from edge_agent.engines.plans.digest import onnx_digest
from edge_agent.engines.plans.onnx_files import external_files

MODELS = Path(__file__).parents[2] / "models"


def varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, *inner: bytes) -> bytes:
    data = b"".join(inner)
    return varint(field << 3 | 2) + varint(len(data)) + data


def external_tensor(location: str, name: str = "w", shape: Tuple[int, ...] = (4,)) -> bytes:
    """A TensorProto of FP32 whose data is elsewhere."""
    entries = part(13, part(1, b"location"), part(2, location.encode())) + part(13, part(1, b"offset"), part(2, b"0"))
    return b"".join(number(1, size) for size in shape) + number(2, 1) + part(8, name.encode()) + entries + number(14, 1)


def model_with(graph: bytes, more: bytes = b"") -> bytes:
    return number(1, 7) + part(7, graph) + part(8, part(1, b""), number(2, 13)) + more


def value_info(field: int, name: str) -> bytes:
    shape = part(2, part(1, number(1, 4)))
    return part(field, part(1, name.encode()), part(2, part(1, number(1, 1), shape)))


def add_weights(location: str = "weights.bin") -> bytes:
    """y = x + w, with w beside the model; ONNX Runtime takes it."""
    node = part(1, part(1, b"x"), part(1, b"w"), part(2, b"y"), part(4, b"Add"))
    graph = node + part(2, b"g") + part(5, external_tensor(location)) + value_info(11, "x") + value_info(12, "y")
    return model_with(graph)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "weights.bin").write_bytes(numpy.arange(4, dtype=numpy.float32).tobytes())
    path = tmp_path / "model.onnx"
    path.write_bytes(add_weights())
    return path


def test_the_hand_made_model_is_one_that_onnx_runtime_takes(model: Path) -> None:
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    (answer,) = session.run(None, {"x": numpy.ones(4, numpy.float32)})
    assert answer.tolist() == [1, 2, 3, 4]


def test_external_data_is_found_where_onnx_runtime_reads_it(model: Path) -> None:
    assert external_files(model) == (model.parent / "weights.bin",)


@pytest.mark.parametrize("file", sorted(MODELS.glob("*.onnx")), ids=lambda file: file.stem)
def test_models_that_are_one_file_have_no_external_data(file: Path) -> None:
    assert external_files(file) == ()


TENSOR = external_tensor("weights.bin")
WAYS = {
    "initializer": part(7, part(5, TENSOR)),
    "sparse_values": part(7, part(15, part(1, TENSOR))),
    "sparse_indices": part(7, part(15, part(2, TENSOR))),
    "constant_node": part(7, part(1, part(5, part(5, TENSOR)))),
    "list_of_tensors": part(7, part(1, part(5, part(10, TENSOR)))),
    "sparse_attribute": part(7, part(1, part(5, part(22, part(1, TENSOR))))),
    "subgraph": part(7, part(1, part(5, part(6, part(5, TENSOR))))),
    "subgraph_of_a_subgraph": part(7, part(1, part(5, part(11, part(1, part(5, part(6, part(5, TENSOR)))))))),
    "function": part(7, b"") + part(25, part(7, part(5, part(5, TENSOR)))),
    "default_of_a_function": part(7, b"") + part(25, part(11, part(5, TENSOR))),
    "training": part(7, b"") + part(20, part(1, part(5, TENSOR))),
}


@pytest.mark.parametrize("way", sorted(WAYS))
def test_external_data_is_found_wherever_a_tensor_may_be(model: Path, way: str) -> None:
    model.write_bytes(number(1, 7) + WAYS[way])
    assert external_files(model) == (model.parent / "weights.bin",)


def test_data_kept_in_the_model_is_passed_over_and_not_read(model: Path) -> None:
    big = part(9, b"\x0f" * 3_000_000)  # raw data that looks like fields
    model.write_bytes(model_with(part(5, number(1, 4), big) + part(5, TENSOR)))
    assert external_files(model) == (model.parent / "weights.bin",)


def test_a_location_without_external_data_means_nothing(model: Path) -> None:
    inside = part(13, part(1, b"location"), part(2, b"/etc/passwd")) + number(14, 0)
    model.write_bytes(model_with(part(5, inside)))
    assert external_files(model) == ()


@pytest.mark.parametrize(
    "location", ["/etc/passwd", "../other", "a/../../other", "", ".", "linked", "dir/linked", "w\0", "sub"]
)
def test_a_location_that_leads_out_of_the_folder_or_to_no_file_is_refused(model: Path, location: str) -> None:
    folder = model.parent
    (folder.parent / "other").write_bytes(b"secret")
    (folder / "linked").symlink_to(folder.parent / "other")
    (folder / "dir").symlink_to(folder.parent)
    (folder / "sub").mkdir()
    model.write_bytes(add_weights(location))
    with pytest.raises(errors.EngineLoadError, match="model.onnx"):
        external_files(model)


def test_data_in_a_folder_below_and_behind_a_link_within_is_found(model: Path) -> None:
    (model.parent / "sub").mkdir()
    (model.parent / "weights.bin").rename(model.parent / "sub" / "real.bin")
    (model.parent / "sub" / "w").symlink_to("real.bin")
    model.write_bytes(add_weights("sub/w"))
    assert external_files(model) == (model.parent / "sub" / "w",)


def test_a_missing_data_file_is_named(model: Path) -> None:
    (model.parent / "weights.bin").unlink()
    with pytest.raises(errors.EngineLoadError, match=r"weights\.bin"):
        onnx_digest(model)


def nested(depth: int) -> bytes:
    data = b""
    for _ in range(depth):
        data = part(1, part(5, part(6, data)))
    return data


BROKEN = {
    "empty": b"",
    "text": b"<html>502 Bad Gateway</html>",
    "no_graph": number(1, 7),
    "graph_is_a_number": number(7, 1),
    "longer_than_the_file": varint(7 << 3 | 2) + varint(1000) + b"x",
    "longer_than_what_holds_it": part(7, varint(5 << 3 | 2) + varint(50)) + b"\0" * 100,
    "endless_number": part(7, b"\xff" * 30),
    "number_cut": part(7, number(1, 1)) + b"\x80",
    "field_nought": b"\x02\x00",
    "group": part(7, b"\x0b\x0c"),
    "kind_seven": part(7, b"\x0f"),
    "huge_length": part(7, varint(1 << 3 | 2) + b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f"),
    "nested_too_deep": model_with(nested(200)),
    "no_location": model_with(part(5, number(14, 1))),
    "location_not_text": model_with(part(5, part(13, part(1, b"location"), part(2, b"\xff\xfe")), number(14, 1))),
    "location_is_a_number": model_with(part(5, part(13, part(1, b"location"), number(2, 5)), number(14, 1))),
    "location_too_long": add_weights("x" * 5000),
}


@pytest.mark.parametrize("kind", sorted(BROKEN))
def test_what_is_no_model_gets_a_clear_error(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(BROKEN[kind])
    with pytest.raises(errors.EngineLoadError, match="no whole ONNX model"):
        external_files(path)


def test_a_model_cut_anywhere_is_an_error_or_has_no_other_files(model: Path) -> None:
    data = model.read_bytes()
    for size in range(len(data)):
        model.write_bytes(data[:size])
        try:
            assert external_files(model) in ((), (model.parent / "weights.bin",))
        except errors.EngineLoadError:
            continue


def test_random_damage_raises_nothing_but_the_load_error(model: Path) -> None:
    rng = random.Random(7)
    data = model.read_bytes() + WAYS["subgraph_of_a_subgraph"] + WAYS["function"]
    for _ in range(3000):
        damaged = bytearray(data)
        for _ in range(rng.randrange(1, 5)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        model.write_bytes(damaged)
        try:
            external_files(model)
        except errors.EngineLoadError:
            continue


def test_a_file_of_countless_fields_is_given_up_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("edge_agent.engines.plans.wire_format._MAX_FIELDS", 1000)
    path = tmp_path / "model.onnx"
    path.write_bytes(part(7, number(100, 1) * 2000))
    with pytest.raises(errors.EngineLoadError, match="over 1000 fields"):
        external_files(path)


def test_data_in_countless_files_is_given_up(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_files, "_MAX_FILES", 3)
    model.write_bytes(model_with(b"".join(part(5, external_tensor("w%d" % index)) for index in range(4))))
    with pytest.raises(errors.EngineLoadError, match="over 3 files"):
        external_files(model)


def change_model(model: Path) -> None:
    model.write_bytes(model.read_bytes() + part(6, b"a remark"))


def change_weights(model: Path) -> None:
    (model.parent / "weights.bin").write_bytes(numpy.arange(1, 5, dtype=numpy.float32).tobytes())


def rename_weights(model: Path) -> None:
    shutil.move(str(model.parent / "weights.bin"), str(model.parent / "weights.bi2"))
    model.write_bytes(add_weights("weights.bi2"))


@pytest.mark.parametrize("change", [change_model, change_weights, rename_weights], ids=lambda change: str(change.__name__))
def test_the_digest_changes_with_each_file_of_the_model(model: Path, change: Callable[[Path], None]) -> None:
    before = onnx_digest(model)
    assert onnx_digest(model) == before
    change(model)
    assert onnx_digest(model) != before


def test_the_digest_is_the_same_wherever_the_model_lies(model: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    copy.mkdir()
    for name in ("model.onnx", "weights.bin"):
        shutil.copy(str(model.parent / name), str(copy / name))
    os.utime(str(copy / "weights.bin"), (1, 1))
    assert onnx_digest(copy / "model.onnx") == onnx_digest(model)


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_cannot_be_read_is_an_error_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "model.onnx"
    if kind == "folder":
        path.mkdir()
    if kind == "pipe":
        os.mkfifo(str(path))
    with pytest.raises(errors.EngineLoadError, match="cannot be read"):
        onnx_digest(path)


def test_a_file_that_grows_meanwhile_is_not_taken_for_what_it_was(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = []

    class Growing:
        """Reads go to the real file, which somebody else writes to."""

        def __init__(self, *args: Any) -> None:
            self._made = real(*args)

        def update(self, data: bytes) -> None:
            if not grown:
                grown.append(True)
                with model.open("ab") as file:
                    file.write(b"more")
            self._made.update(data)

        def hexdigest(self) -> str:
            return str(self._made.hexdigest())

    real = digest_module.hashlib.sha256
    monkeypatch.setattr(digest_module.hashlib, "sha256", Growing)
    with pytest.raises(errors.EngineLoadError, match="changed meanwhile") as caught:
        onnx_digest(model)
    assert caught.value.args_by_name["code"] == "model.unreadable"
