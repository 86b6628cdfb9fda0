"""Sizes within a plan's profiles that its graph cannot run together, and profiles that are chosen for it."""

import json
import os
import struct

import numpy
import pytest

from edge_agent.engine_host import wire
from edge_agent.engine_host.failures import LoadError, RunFailed
from edge_agent.engine_host.trt.engine import open_engine
from tests import fake_gpu, gpu_models

MODELS = os.path.join(os.path.dirname(os.path.abspath(fake_gpu.__file__)), "models")
ROWS = ((1, 4), (4, 4), (8, 4))


def in_fours(path):
    """y = x [N, W] in rows of four: only where N * W is a multiple of four."""
    nodes = [gpu_models.node("Reshape", ["x", "fours"], ["y"])]
    fours = gpu_models.tensor("fours", 7, [2], struct.pack("<qq", -1, 4))
    inputs, outputs = [gpu_models.value("x", 1, ["N", "W"])], [gpu_models.value("y", 1, ["M", 4])]
    return gpu_models.write(path, nodes, inputs, outputs, [fours])


def sum_of_all(path):
    """y = the sum of all of x [N] + z [M]: the output's size is the same whatever comes."""
    nodes = [gpu_models.node("Add", ["x", "z"], ["s"]), gpu_models.node("ReduceSum", ["s"], ["y"], keepdims=1)]
    inputs = [gpu_models.value("x", 1, ["N"]), gpu_models.value("z", 1, ["M"])]
    return gpu_models.write(path, nodes, inputs, [gpu_models.value("y", 1, [1])])


def ones(*shapes):
    return [numpy.ones(shape, numpy.float32) for shape in shapes]


ANY = ((1,), (4,), (8,))
#: model: (profile, inputs that it runs, and what comes of them, inputs within the profile that it cannot run)
TABLE = {
    "in fours": (in_fours, {"x": ((1, 1), (2, 4), (8, 330))}, ones((2, 8)), numpy.ones((4, 4)), [ones((3, 3)), ones((1, 330))]),
    "two inputs": (None, {"a": ((1, 2), (4, 2), (8, 2)), "b": ((1, 2), (4, 2), (8, 2))}, ones((3, 2), (3, 2)),
                   numpy.full((3, 2), 2.0), [ones((2, 2), (3, 2)), ones((8, 2), (7, 2))]),
    "found late": (sum_of_all, {"x": ANY, "z": ANY}, ones(3, 3), numpy.array([6.0]), [ones(2, 3), ones(8, 7)]),
}  # fmt: skip


@pytest.mark.parametrize("version", ["8.2", "8.5", "8.6.1", "10.3.0", "11.4.0"])
@pytest.mark.parametrize("name", sorted(TABLE))
def test_sizes_that_do_not_go_together_are_that_requests_fault_alone(gpu, tmp_path, name, version):
    make, profile, good, expected, wrong = TABLE[name]
    one = gpu(version=version)
    source = make(tmp_path / "m.onnx") if make else os.path.join(MODELS, "sum_and_difference.onnx")
    path = fake_gpu.make_plan(source, tmp_path / "m.plan", version=version, profiles=[profile])
    served = one.serve(path, max_batch_size=0)
    for arrays in [good, *wrong, *wrong, good]:
        (answer,) = served.run(served.request(*arrays, capacity=1 << 14))
        if arrays is good:
            numpy.testing.assert_array_equal(served.output(answer), expected)
            continue
        assert answer.status == wire.FAILED
        assert "the plan cannot run inputs of " in json.loads(answer.text.decode())["text"]


@pytest.mark.parametrize(("version", "kind"), [("8.5", numpy.int32), ("8.6.1", numpy.int32), ("10.3.0", numpy.int64)])
def test_values_that_do_not_go_with_the_sizes_end_nothing(gpu, tmp_path, version, kind):
    gpu(version=version)
    nodes = [gpu_models.node("Expand", ["x", "sizes"], ["y"])]
    inputs = [gpu_models.value("x", 1, ["N", 4]), gpu_models.value("sizes", 7, [2])]
    source = gpu_models.write(tmp_path / "m.onnx", nodes, inputs, [gpu_models.value("y", 1, ["A", "B"])])
    profile = {"x": ROWS, "sizes": ((2,), (2,), (2,))}
    values = [{"sizes": [[1, 1], [2, 4], [8, 8]]}]
    path = fake_gpu.make_plan(source, tmp_path / "m.plan", version=version, profiles=[profile], values=values)
    engine = open_engine(str(path), {})
    x = numpy.ones((2, 4), numpy.float32)
    for sizes, shape in [((2, 4), (2, 4)), ((3, 4), None), ((2, 5), None), ((1, 4), (2, 4))]:
        feeds = {"x": x, "sizes": numpy.array(sizes, kind)}
        if shape is None:
            with pytest.raises(RunFailed, match="cannot run inputs of"):
                engine.run(["y"], feeds)
        else:
            assert engine.run(["y"], feeds)[0].shape == shape
    engine.close()


def test_a_second_context_of_a_plan_with_values_chooses_its_profile(gpu, tmp_path):
    gpu()
    nodes = [gpu_models.node("Tile", ["x", "repeats"], ["y"])]
    inputs = [gpu_models.value("x", 1, [2, 4]), gpu_models.value("repeats", 7, [2])]
    source = gpu_models.write(tmp_path / "m.onnx", nodes, inputs, [gpu_models.value("y", 1, ["A", "B"])])
    profile = {"x": ((2, 4),) * 3, "repeats": ((2,),) * 3}
    path = fake_gpu.make_plan(source, tmp_path / "m.plan", profiles=[profile], values=[{"repeats": [[1, 1], [2, 1], [3, 3]]}])
    engines = [open_engine(str(path), {}) for _ in range(2)]
    for engine in engines:
        feeds = {"x": numpy.ones((2, 4), numpy.float32), "repeats": numpy.array([2, 3], numpy.int64)}
        assert engine.run(["y"], feeds)[0].shape == (4, 12)
    for engine in reversed(engines):
        engine.close()


def test_only_the_profiles_that_the_configuration_names_are_used(gpu):
    one = gpu()
    path = one.plan("add_one", ((1, 4), (1, 4), (2, 4)), ((1, 4), (4, 4), (4, 4)), ROWS)
    served = one.serve(path, max_batch_size=None, tensorrt={"profiles": [1]})
    assert served.reply["max_batch_size"] == 4
    (answer,) = served.run(served.request(numpy.ones((1, 4), numpy.float32)))
    assert (served.output(answer) == 2).all()
    assert served.engine._runs.profile == 1
    (answer,) = served.run(served.request(numpy.ones((5, 4), numpy.float32)))
    assert "the plan takes [1, 4] to [4, 4]" in json.loads(answer.text.decode())["text"]
    with pytest.raises(LoadError, match="instance_group names profile 3, and the plan has profiles 0 to 2"):
        one.serve(path, tensorrt={"profiles": [1, 3]})
