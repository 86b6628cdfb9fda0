import json
import sys

import numpy
import pytest

from edge_agent.engine_host import wire
from edge_agent.engine_host.trt import library
from edge_agent.engine_host.trt.memory import MappedBuffer, StagedBuffer

ANY = ((1, 1), (1, 4), (8, 65536))


def ones(count, width):
    return numpy.ones((count, width), numpy.float32)


@pytest.fixture(params=[MappedBuffer, StagedBuffer])
def buffer(request, gpu):
    gpu()
    device = library.probe().device
    device.enter()
    made = request.param(device.cuda)
    yield made
    made.free()
    device.leave()


def test_a_buffer_grows_and_keeps_its_place_while_it_is_large_enough(buffer):
    buffer.ensure(100)
    place = buffer.device, buffer.host
    buffer.ensure(buffer.capacity)
    buffer.ensure(1)
    assert (buffer.device, buffer.host, buffer.moves) == (*place, 1)
    buffer.ensure(buffer.capacity + 1)
    assert buffer.moves == 2
    assert buffer.capacity >= 4097


def test_a_buffer_holds_a_tensor_of_any_shape(buffer):
    buffer.ensure(0)
    assert buffer.array(numpy.dtype("f4"), (0, 4)).shape == (0, 4)
    buffer.ensure(2 * 3 * 2)
    array = buffer.array(numpy.dtype("f2"), (2, 3))
    array[...] = 5
    assert array.ctypes.data == buffer.host


def test_a_buffer_that_finds_no_memory_is_empty_and_can_be_used_again(gpu):
    one = gpu(integrated=False)
    device = library.probe().device
    device.enter()
    made = StagedBuffer(device.cuda)
    made.ensure(100)
    before = one.live()
    one.faults(alloc_above=5000)
    with pytest.raises(device.cuda.MemoryError):
        made.ensure(6000)
    assert (made.capacity, made.device, made.host) == (0, 0, 0)
    made.ensure(100)
    assert one.live() == before
    made.free()
    device.leave()


@pytest.mark.parametrize("integrated", [True, False], ids=["zero-copy", "staged"])
def test_a_batch_without_memory_is_answered_and_the_next_one_runs(gpu, integrated):
    one = gpu(integrated=integrated)
    served = one.serve(one.plan("add_one_any", ANY))
    one.faults(alloc_above=100000)
    (answer,) = served.run(served.request(ones(2, 20000)))
    assert answer.status == wire.FAILED
    said = json.loads(answer.text.decode())
    assert said["code"] == "engine.out_of_memory"
    assert "inputs of 0.2 MB" in said["text"]
    assert "MB free" in said["text"]
    for _ in range(4):
        served.arena._end = 0
        assert (served.output(served.run(served.request(ones(2, 1000), capacity=1 << 16))[0]) == 2).all()
    one.faults()
    (answer,) = served.run(served.request(ones(2, 20000), capacity=1 << 18))
    assert (served.output(answer) == 2).all()


def test_an_output_of_unknown_size_without_memory_is_answered_too(gpu):
    one = gpu(integrated=False)
    served = one.serve(one.plan("nonzero", ((1,), (8,), (4096,))), max_batch_size=0)
    one.faults(alloc_above=20000)
    (answer,) = served.run(served.request(numpy.ones(4096, numpy.float32), capacity=1 << 16))
    assert json.loads(answer.text.decode())["code"] == "engine.out_of_memory"
    array = numpy.ones(64, numpy.float32)
    assert served.output(served.run(served.request(array, capacity=1 << 16))[0])[0].tolist() == list(range(64))


@pytest.mark.parametrize(("integrated", "kind"), [(True, MappedBuffer), (False, StagedBuffer)])
def test_only_boards_that_share_memory_copy_nothing(gpu, integrated, kind):
    one = gpu(integrated=integrated)
    served = one.serve(one.plan("add_one", ((1, 4), (4, 4), (8, 4))))
    assert {type(buffer) for buffer in served.engine._sets[0].buffers.values()} == {kind}


def test_threads_leave_no_context_behind(gpu):
    one = gpu()
    one.serve(one.plan("add_one", ((1, 4), (4, 4), (8, 4)))).close()
    one._served.clear()
    driver = sys.modules["pycuda.driver"]
    with pytest.raises(driver.LogicError, match="no currently active context"):
        driver.Stream()
