import struct

import numpy
import pytest

from edge_agent.engine_host import tensors, wire

CASES = [
    ("BOOL", [[True, False], [False, True]]),
    ("UINT8", [0, 255]),
    ("INT64", [-(2**62), 2**62]),
    ("FP16", [0.5, -65504.0]),
    ("FP64", [[1e300], [-1e-300]]),
]


def strings(*parts):
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def read(data, datatype, shape):
    return tensors.from_wire(memoryview(data), wire.DATATYPE_CODES[datatype], shape)


@pytest.mark.parametrize(("datatype", "values"), CASES, ids=[case[0] for case in CASES])
def test_numbers_come_back_bit_for_bit(datatype, values):
    array = numpy.array(values, tensors.NUMPY_TYPES[datatype])
    flat = tensors.to_wire(array, datatype)
    assert flat.tobytes() == array.tobytes()
    back = read(flat.tobytes(), datatype, array.shape)
    assert back.dtype == array.dtype
    assert (back == array).all()


def test_aligned_bytes_are_not_copied_and_misaligned_ones_are():
    buffer = numpy.zeros(64, numpy.uint8)
    aligned = read(buffer[:16], "FP32", (4,))
    misaligned = read(buffer[1:17], "FP32", (4,))
    assert numpy.may_share_memory(aligned, buffer)
    assert not numpy.may_share_memory(misaligned, buffer)
    assert misaligned.flags.aligned


def test_a_tensor_without_elements_has_its_shape():
    assert read(b"", "FP32", (2, 0, 3)).shape == (2, 0, 3)
    assert tensors.to_wire(numpy.zeros((0, 4), numpy.float32), "FP32").nbytes == 0


@pytest.mark.parametrize("shape", [(3,), (5,), (-1, -4), (2**40, 2**40)])
def test_bytes_that_do_not_fit_the_shape_are_refused(shape):
    with pytest.raises(wire.WireError):
        read(b"\0" * 16, "FP32", shape)


def test_bf16_is_refused_by_name_where_nothing_can_hold_it(monkeypatch):
    monkeypatch.setattr(tensors, "_BY_CODE", [None] * len(wire.DATATYPES))
    with pytest.raises(wire.WireError, match="BF16.*ml_dtypes"):
        read(b"\0\0", "BF16", (1,))


def test_bf16_comes_back_bit_for_bit_where_ml_dtypes_is():
    pytest.importorskip("ml_dtypes")
    data = b"\x80\x3f\xc0\x7f"  # 1 and NaN
    array = read(data, "BF16", (2,))
    assert float(array[0]) == 1.0
    assert tensors.to_wire(array, "BF16").tobytes() == data


@pytest.mark.parametrize(
    "parts",
    [[b"abc", b"def"], [b"a", b"", "größer".encode()], [b"", b""], [b"same", b"long", b"text"], [b"abc", b"de", b"fghi"]],
)
def test_strings_come_back_as_they_were(parts):
    array = read(strings(*parts), "BYTES", (len(parts), 1))
    assert array.shape == (len(parts), 1)
    assert [item.encode() for item in array.reshape(-1).tolist()] == parts
    assert tensors.to_wire(array, "BYTES").tobytes() == strings(*parts)


def test_no_strings_are_no_bytes():
    array = read(b"", "BYTES", (0,))
    assert array.shape == (0,)
    assert tensors.to_wire(array, "BYTES").nbytes == 0


@pytest.mark.parametrize(
    ("data", "count", "says"),
    [
        (struct.pack("<I", 0xFFFFFFFF) + b"abc", 1, "past the end"),
        (strings(b"abc")[:-1], 1, "past the end"),
        (strings(b"abc", b"de"), 1, "follow the last"),
        (strings(b"abc", b"d") + b"xx", 3, "within the length"),
        (strings(b"abc"), 9, "cannot hold 9"),
        (strings(b"abc"), 0, "follow the last"),
        (strings(b"\xff\xfe\xfd"), 1, "UTF-8"),
    ],
)
def test_badly_framed_strings_are_refused(data, count, says):
    with pytest.raises(wire.WireError, match=says):
        read(data, "BYTES", (count,))
