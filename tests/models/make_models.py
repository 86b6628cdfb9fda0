"""Writes the tiny models that the tests load: `python tests/models/make_models.py` (needs the onnx package).

Opset 13 and IR 7, so that ONNX Runtime 1.10 loads them on Python 3.6 too. The files are committed.
"""

from __future__ import annotations

import pathlib

import numpy
from onnx import TensorProto, checker, helper, numpy_helper, save

HERE = pathlib.Path(__file__).parent


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def constant(name, array):
    return numpy_helper.from_array(numpy.asarray(array), name)


def write(name, nodes, inputs, outputs, constants=()):
    graph = helper.make_graph(nodes, name, inputs, outputs, list(constants))
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7, producer_name="edge-agent tests"
    )
    checker.check_model(model)
    save(model, str(HERE / (name + ".onnx")))


def node(kind, inputs, outputs, **attributes):
    return helper.make_node(kind, inputs, outputs, **attributes)


def main():
    single = TensorProto.FLOAT
    one = constant("one", numpy.float32(1))
    add = node("Add", ["x", "one"], ["y"])
    write("add_one", [add], [value("x", single, ["N", 4])], [value("y", single, ["N", 4])], [one])
    write("add_one_any", [add], [value("x", single, ["N", "M"])], [value("y", single, ["N", "M"])], [one])
    write("add_one_fixed", [add], [value("x", single, [1, 4])], [value("y", single, [1, 4])], [one])
    write("add_one_three", [add], [value("x", single, [3, 4])], [value("y", single, [3, 4])], [one])
    write(
        "add_one_half_dynamic",  # the batch is dynamic at both ends, and fixed at 1 within
        [node("Reshape", ["x", "inner"], ["r"]), node("Add", ["r", "one"], ["y"])],
        [value("x", single, ["N", 4])],
        [value("y", single, ["N", 4])],
        [one, constant("inner", numpy.array([1, 4], numpy.int64))],
    )
    write(
        "sum_and_difference",
        [node("Add", ["a", "b"], ["sum"]), node("Sub", ["a", "b"], ["difference"])],
        [value("a", single, ["N", 2]), value("b", single, ["N", 2])],
        [value("sum", single, ["N", 2]), value("difference", single, ["N", 2])],
    )
    write(
        "sum_of_batch",  # mixes the rows, so it must not be batched
        [node("ReduceSum", ["x", "axis"], ["y"], keepdims=1)],
        [value("x", single, ["N", 4])],
        [value("y", single, [1, 4])],
        [constant("axis", numpy.array([0], numpy.int64))],
    )
    integer = TensorProto.INT64
    write("nonzero", [node("NonZero", ["x"], ["where"])], [value("x", single, ["n"])], [value("where", integer, [1, "k"])])
    write(
        "lookup",  # fails at run time for an index over 3
        [node("Gather", ["table", "index"], ["found"])],
        [value("index", integer, ["N", 1])],
        [value("found", single, ["N", 1])],
        [constant("table", numpy.arange(4, dtype=numpy.float32) * 10)],
    )
    for name, kind in (
        ("same_text", TensorProto.STRING),
        ("same_half", TensorProto.FLOAT16),
        ("same_bf16", TensorProto.BFLOAT16),
        ("same_bool", TensorProto.BOOL),
        ("same_uint8", TensorProto.UINT8),
        ("same_uint16", TensorProto.UINT16),
        ("same_uint32", TensorProto.UINT32),
        ("same_uint64", TensorProto.UINT64),
        ("same_int8", TensorProto.INT8),
        ("same_int16", TensorProto.INT16),
        ("same_int32", TensorProto.INT32),
        ("same_int64", TensorProto.INT64),
        ("same_fp32", TensorProto.FLOAT),
        ("same_fp64", TensorProto.DOUBLE),
    ):
        write(name, [node("Identity", ["x"], ["y"])], [value("x", kind, ["N", "M"])], [value("y", kind, ["N", "M"])])
    write(
        "mean_colour",  # a classifier of three classes: how red, green and blue a picture is
        [node("GlobalAveragePool", ["image"], ["mean"]), node("Flatten", ["mean"], ["scores"])],
        [value("image", single, ["N", 3, 8, 8])],
        [value("scores", single, ["N", 3])],
    )
    kernels = [numpy.linspace(-0.2, 0.2, size, dtype=numpy.float32) for size in (8 * 3 * 9, 8 * 8 * 9)]
    write(
        "any_size",  # takes pictures of every size, and works on them
        [
            node("Conv", ["image", "first"], ["a"], pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["b"]),
            node("Conv", ["b", "second"], ["c"], pads=[1, 1, 1, 1]),
            node("GlobalAveragePool", ["c"], ["mean"]),
            node("Flatten", ["mean"], ["scores"]),
        ],
        [value("image", single, ["N", 3, "H", "W"])],
        [value("scores", single, ["N", 8])],
        [constant("first", kernels[0].reshape(8, 3, 3, 3)), constant("second", kernels[1].reshape(8, 8, 3, 3))],
    )
    write(
        "boxes",  # hands its input on as end-to-end YOLO rows
        [node("Identity", ["image"], ["i"]), node("Reshape", ["i", "rows"], ["detections"])],
        [value("image", single, ["N", 3, 4, 6])],
        [value("detections", single, ["N", 12, 6])],
        [constant("rows", numpy.array([-1, 12, 6], numpy.int64))],
    )


if __name__ == "__main__":
    main()
