"""What a plan may have that this agent does not carry, and what the library may refuse at any step."""

import json
import sys

import numpy
import pytest

from edge_agent.engine_host import wire
from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.trt import datatypes

ROWS = ((1, 4), (4, 4), (8, 4))


class Types:
    """A library's datatypes."""

    class DataType:
        FLOAT, HALF, FP8, BF16 = "float", "half", "fp8", "bf16"


def test_a_datatype_that_cannot_be_carried_is_named():
    assert datatypes.datatype_of(Types, "p", "x", "half") == "FP16"
    with pytest.raises(LoadError, match="tensor 'x' is fp8, which this agent cannot carry"):
        datatypes.datatype_of(Types, "p", "x", "fp8")


def test_bfloat16_needs_its_package(monkeypatch):
    monkeypatch.setitem(datatypes.NUMPY_TYPES, "BF16", None)
    with pytest.raises(LoadError, match="needs the package ml_dtypes"):
        datatypes.datatype_of(Types, "p", "x", "bf16")


def engine_class():
    return sys.modules["fake_gpu.engine"].ICudaEngine


def context_class():
    return sys.modules["fake_gpu.context"].IExecutionContext


@pytest.fixture
def plan(gpu):
    """(the device, a plan for it, the served instance that says which library is loaded)."""

    def make(**choices):
        one = gpu(**choices)
        path = one.plan("add_one", ROWS)
        return one, path, one.serve(path)

    return make


@pytest.mark.parametrize(
    ("version", "name"), [("8.2", "get_binding_format"), ("8.6.1", "get_tensor_format"), ("11.4.0", "get_tensor_format")]
)
def test_formats_other_than_plain_rows_are_refused(plan, version, name):
    one, path, served = plan(version=version)
    served.close()
    one._served.clear()
    setattr(engine_class(), name, lambda self, tensor: sys.modules["tensorrt"].TensorFormat.CHW4)
    with pytest.raises(LoadError, match="has the format CHW4; build the plan with linear"):
        one.serve(path)


def test_a_plan_with_an_implicit_batch_is_refused(plan):
    one, path, served = plan(version="8.2")
    served.close()
    one._served.clear()
    engine_class().has_implicit_batch_dimension = True
    with pytest.raises(LoadError, match="implicit batch dimension") as caught:
        one.serve(path)
    assert caught.value.detail == {"code": "plan.foreign"}


def test_inputs_that_decide_about_shapes_need_the_newer_api(plan):
    one, path, served = plan(version="8.2")
    served.close()
    one._served.clear()
    engine_class().is_shape_binding = lambda self, index: True
    with pytest.raises(LoadError, match="decides about shapes, which needs TensorRT 8.5"):
        one.serve(path)


def test_a_profile_that_is_refused_by_raising_is_told_as_what_it_is(plan):
    one, path, served = plan()
    served.close()
    one._served.clear()

    def refuse(self, index, stream):
        raise RuntimeError("Error in set optimization profile async.")

    context_class().set_optimization_profile_async = refuse
    with pytest.raises(LoadError, match="does not change to profile 0: Error in set optimization profile"):
        one.serve(path)


def test_no_memory_for_a_context_is_want_of_memory(plan):
    one, path, _ = plan()
    engine_class().create_execution_context = lambda self: None
    with pytest.raises(LoadError, match="cannot make an execution context") as caught:
        one.serve(path)
    assert caught.value.detail == {"code": "engine.out_of_memory"}


@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
@pytest.mark.parametrize(
    ("step", "answer", "says"),
    [
        ("set_optimization_profile_async", False, "does not change to profile 0"),
        ("shape", False, r"refuses shape \[3, 4\] of input 'x'"),
        ("missing", False, "misses the size of an input"),
    ],
)
def test_what_the_library_refuses_is_told_with_its_tensor_and_ends_nothing(plan, version, step, answer, says):
    one, path, served = plan(version=version)
    names = {
        "shape": ("set_binding_shape", "set_input_shape"),
        "missing": ("all_binding_shapes_specified",) * 2,
    }.get(step, (step, step))
    cls, name = context_class(), names[version != "8.2"]
    kept = cls.__dict__[name]
    setattr(cls, name, answer if step == "missing" else lambda self, *args: answer)
    served.engine._runs._profile = None
    array = numpy.ones((3, 4), numpy.float32)
    (answer,) = served.run(served.request(array))
    assert answer.status == wire.FAILED
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(json.loads(answer.text.decode())["text"])
    setattr(cls, name, kept)
    assert (served.output(served.run(served.request(array))[0]) == 2).all()


def test_an_address_that_is_refused_is_told(plan):
    one, path, served = plan()
    cls = context_class()
    kept, cls.set_tensor_address = cls.set_tensor_address, lambda self, name, pointer: name != "y"
    served.engine._runs._addresses.clear()
    array = numpy.ones((3, 4), numpy.float32)
    (answer,) = served.run(served.request(array))
    assert "refuses the memory of 'y'" in json.loads(answer.text.decode())["text"]
    cls.set_tensor_address = kept
    assert (served.output(served.run(served.request(array))[0]) == 2).all()


def test_sizes_that_a_request_names_wrongly_end_nothing(plan):
    """Where values decide about shapes, a run that is refused is that request's doing, unless CUDA says otherwise."""
    one, path, served = plan()
    served.engine._runs._by_value = True
    one.faults(enqueue="false")
    array = numpy.ones((3, 4), numpy.float32)
    (answer,) = served.run(served.request(array))
    assert "cannot run it with these values: " in json.loads(answer.text.decode())["text"]
    one.faults()
    assert (served.output(served.run(served.request(array))[0]) == 2).all()
