import json

import numpy
import pytest

from edge_agent.engine_host import wire
from edge_agent.engine_host.failures import LoadError

GENERATIONS = ("8.2", "8.5", "8.6.1", "10.3.0", "10.16.1", "11.4.0")
ROWS = ((1, 4), (4, 4), (8, 4))
SLOT = 600 << 10


def rows(first, count, width=4):
    return numpy.arange(first, first + count * width, dtype=numpy.float32).reshape(count, width)


def failure_of(answer):
    assert answer.status == wire.FAILED
    return json.loads(answer.text.decode())


@pytest.fixture(params=[True, False], ids=["zero-copy", "staged"])
def integrated(request):
    return request.param


@pytest.mark.parametrize("version", GENERATIONS)
def test_each_request_gets_its_own_rows_whatever_ran_before(gpu, version, integrated):
    """B011 (triton-inference-server/server#2136, NVIDIA/TensorRT#3966): buffers for the largest batch are used again."""
    one = gpu(version=version, integrated=integrated)
    served = one.serve(one.plan("add_one", ROWS))
    for turn, sizes in enumerate([[8], [2], [8], [3, 4, 1], [3], [7], [1], [1, 1], [1, 2, 5], [8], [2], [8]]):
        inputs = [rows(10000 * turn + 1000 * number, size) for number, size in enumerate(sizes)]
        answers = served.run(*[served.request(array, room=number) for number, array in enumerate(inputs)])
        for array, answer in zip(inputs, answers):
            numpy.testing.assert_array_equal(served.output(answer), array + 1)
        assert (served.times.last, served.times.rows) == (1, sum(sizes))


@pytest.mark.parametrize("version", GENERATIONS)
def test_the_profile_follows_the_rows(gpu, version, integrated):
    one = gpu(version=version, integrated=integrated)
    served = one.serve(one.plan("add_one", ((1, 4), (1, 4), (1, 4)), ((2, 4), (4, 4), (4, 4)), ((2, 4), (8, 4), (8, 4))))
    for size, profile in [(1, 0), (4, 1), (8, 2), (3, 1), (1, 0), (5, 2), (2, 1)]:
        array = rows(100 * size, size)
        numpy.testing.assert_array_equal(served.output(served.run(served.request(array))[0]), array + 1)
        assert served.engine._runs.profile == profile


def test_rows_between_two_profiles_are_filled_up_and_nobody_sees_it(gpu, integrated):
    one = gpu(integrated=integrated)
    served = one.serve(one.plan("add_one", ((1, 4), (1, 4), (1, 4)), ((4, 4), (4, 4), (8, 4))))
    for size in (8, 2, 3, 1, 2):
        array = rows(100 * size, size)
        (answer,) = served.run(served.request(array))
        numpy.testing.assert_array_equal(served.output(answer), array + 1)
    assert served.times.rows == 2


def test_a_batch_that_no_profile_takes_is_told_which_sizes_are(gpu, integrated):
    one = gpu(integrated=integrated)
    served = one.serve(one.plan("add_one", ROWS))
    (bad,) = served.run(served.request(rows(0, 9)))
    assert failure_of(bad)["text"] == "input 'x' has shape [9, 4], the plan takes [1, 4] to [8, 4]"
    numpy.testing.assert_array_equal(served.output(served.run(served.request(rows(5, 8)))[0]), rows(5, 8) + 1)


def test_what_the_model_does_not_take_is_answered_and_the_rest_runs(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    bad, good = served.request(rows(0, 1)), served.request(rows(7, 2), room=1)
    bad.inputs[0] = bad.inputs[0]._replace(nbytes=4)
    first, second = served.run(bad, good)
    assert failure_of(first)["code"] == "engine.bad_reference"
    numpy.testing.assert_array_equal(served.output(second), rows(7, 2) + 1)


def test_a_batch_without_one_good_request_is_answered(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    bad = served.request(rows(0, 1))
    bad.inputs[0] = bad.inputs[0]._replace(segment=99)
    assert "not attached" in failure_of(served.run(bad)[0])["text"]
    data = wire.pack_execute(served.batch + 1, [served.request(rows(0, 1))])
    served.ours.send(data[:40])
    served.batch += 1
    _, (answer,), _ = served.receive()
    assert "malformed" in failure_of(answer)["text"]


def test_only_the_outputs_that_are_asked_for_come_in_their_order(gpu, integrated):
    one = gpu(integrated=integrated)
    both = {"a": ((1, 2), (4, 2), (8, 2)), "b": ((1, 2), (4, 2), (8, 2))}
    served = one.serve(one.plan("sum_and_difference", both))
    left, right = rows(10, 2, 2), rows(0, 2, 2)
    first, second = served.run(served.request(left, right, outputs=(1, 0)), served.request(left, right, outputs=(1,), room=1))
    assert [ref.index for ref in first.outputs] == [1, 0]
    numpy.testing.assert_array_equal(served.output(first, 0), left - right)
    numpy.testing.assert_array_equal(served.output(first, 1), left + right)
    assert [ref.index for ref in second.outputs] == [1]


@pytest.mark.parametrize(
    ("version", "model", "datatype", "dtype"),
    [
        ("8.2", "same_half", "FP16", numpy.float16),
        ("8.2", "same_int32", "INT32", numpy.int32),
        ("8.2", "same_bool", "BOOL", numpy.bool_),
        ("8.2", "same_int8", "INT8", numpy.int8),
        ("8.6.1", "same_uint8", "UINT8", numpy.uint8),
        ("10.3.0", "same_int64", "INT64", numpy.int64),
    ],
)
def test_datatypes_go_through_as_they_are(gpu, version, model, datatype, dtype):
    one = gpu(version=version)
    served = one.serve(one.plan(model, ((1, 2), (2, 2), (8, 2))))
    array = numpy.array([[0, 1], [1, 0], [1, 1]]).astype(dtype)
    (answer,) = served.run(served.request(array, datatype=datatype))
    found = served.output(answer)
    assert found.dtype == dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("version", ["8.5", "10.3.0", "11.4.0"])
def test_an_output_whose_size_only_the_run_tells_is_cut_to_it(gpu, version, integrated):
    one = gpu(version=version, integrated=integrated)
    served = one.serve(one.plan("nonzero", ((1,), (8,), (4096,))), max_batch_size=0)
    for size in (8, 4096, 3, 64):
        array = numpy.zeros(size, numpy.float32)
        array[1::2] = 1
        (answer,) = served.run(served.request(array, capacity=1 << 16))
        assert served.output(answer)[0].tolist() == list(range(1, size, 2))
    assert served.output(served.run(served.request(numpy.zeros(5, numpy.float32)))[0]).shape == (1, 0)
    assert not served.engine.graphs.on


def test_the_oldest_api_says_that_it_cannot_do_such_outputs(gpu):
    one = gpu(version="8.2")
    path = one.plan("nonzero", ((1,), (8,), (64,)))
    with pytest.raises(LoadError, match="depends on the data, which needs TensorRT 8.5"):
        one.serve(path, max_batch_size=0)
    served = one.serve(path, max_batch_size=0, warmup=False)
    assert "needs TensorRT 8.5" in failure_of(served.run(served.request(numpy.zeros(8, numpy.float32)))[0])["text"]


def test_an_answer_that_finds_no_room_waits_while_others_run(gpu, integrated):
    one = gpu(integrated=integrated)
    served = one.serve(one.plan("add_one", ROWS))
    first, second = served.run(served.request(rows(7, 2), capacity=0), served.request(rows(50, 1), room=1))
    kept = served.batch
    assert (first.status, first.need) == (wire.NO_ROOM, 32)
    numpy.testing.assert_array_equal(served.output(second), rows(50, 1) + 1)
    for turn in range(4):
        served.run(served.request(rows(1000 * turn, 8), room=2))
    served.ours.send(wire.pack_room(kept, 0, 3, SLOT, 4096))
    batch, (answer,), _ = served.receive()
    assert batch == kept
    numpy.testing.assert_array_equal(served.output(answer), rows(7, 2) + 1)


def test_an_answer_that_is_dropped_is_gone(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    served.run(served.request(rows(7, 2), capacity=0))
    served.ours.send(wire.pack_drop(served.batch, 0))
    served.ours.send(wire.pack_room(served.batch, 0, 3, SLOT, 4096))
    assert failure_of(served.receive()[1][0])["code"] == "engine.answer_dropped"


def test_detections_are_decoded_from_the_engines_own_memory(gpu, integrated):
    one = gpu(integrated=integrated)
    path = one.plan("boxes", {"image": ((1, 3, 4, 6), (1, 3, 4, 6), (4, 3, 4, 6))})
    served = one.serve(path, decode={"kind": "yolo", "min_score": 0.5}, max_batch_size=4)
    requests = []
    for number, left in enumerate((0.0, 2.0)):
        found = numpy.zeros((12, 6), numpy.float32)
        found[4] = [left, 1, left + 2, 3, 0.9, 7]
        requests.append(served.request(found.reshape(1, 3, 4, 6), room=number, flags=wire.FLAG_DECODE))
    boxes = [json.loads(answer.text.decode())["objects"][0]["box"] for answer in served.run(*requests)]
    assert boxes == [[0, 1, 2, 3], [2, 1, 4, 3]]


def test_a_plan_of_fixed_shape_runs_requests_one_by_one(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one_fixed", ((1, 4), (1, 4), (1, 4))))
    assert served.reply["max_batch_size"] == 1
    assert "fixed at 1" in served.reply["warnings"][0]
    answers = served.run(*[served.request(rows(10 * number, 1), room=number) for number in range(5)])
    for number, answer in enumerate(answers):
        numpy.testing.assert_array_equal(served.output(answer), rows(10 * number, 1) + 1)
    assert served.times.rows == 5


# -- loading ----------------------------------------------------------------------------------------------------------


def test_the_largest_batch_is_the_profiles_where_nobody_says(gpu):
    one = gpu()
    assert one.serve(one.plan("add_one", ROWS), max_batch_size=None).reply["max_batch_size"] == 8


def test_a_plan_with_smaller_profiles_than_asked_for_says_so(gpu):
    one = gpu()
    reply = one.serve(one.plan("add_one", ((1, 4), (2, 4), (4, 4))), max_batch_size=16).reply
    assert reply["max_batch_size"] == 4
    assert "profiles end at 4 rows" in reply["warnings"][0]


def test_each_profiles_rows_have_run_before_the_first_request(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one", ((1, 4), (2, 4), (4, 4)), ((1, 4), (6, 4), (8, 4))), warmup_sizes=[3])
    assert sorted(shape[0] for _, (shape,) in served.engine._runs._remembered) == [1, 2, 3, 4, 6, 8]


def test_open_sizes_are_warmed_with_the_profiles_usual_ones(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one_any", ((1, 1), (2, 5), (4, 9))))
    assert ((4, 5),) in [shapes for _, shapes in served.engine._runs._remembered]


FOREIGN = {
    "another version": (lambda one: one.plan("add_one", ROWS, version="8.5"), "Version tag does not match"),
    "another board": (lambda one: one.plan("add_one", ROWS, compute_capability=(7, 2)), "incompatible device"),
    "cut off": (lambda one: changed(one, lambda data: data[:-10]), "wrong size"),
    "one bit changed": (lambda one: changed(one, lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]), "check sum"),
    "no plan": (lambda one: changed(one, lambda data: b"\0" * 100), "Magic tag"),
    "empty": (lambda one: changed(one, lambda data: b""), "file is empty"),
}


def changed(one, change):
    path = one.plan("add_one", ROWS)
    with open(str(path), "rb") as file:
        data = file.read()
    with open(str(path), "wb") as file:
        file.write(change(data))
    return path


@pytest.mark.parametrize("kind", sorted(FOREIGN))
def test_a_plan_that_tensorrt_refuses_is_told_from_other_failures(gpu, kind):
    one = gpu()
    make, words = FOREIGN[kind]
    with pytest.raises(LoadError, match=words) as caught:
        one.serve(make(one))
    assert caught.value.detail == {"code": "plan.foreign"}


def test_want_of_memory_at_loading_is_not_the_plans_fault(gpu):
    one = gpu(integrated=False)
    path = one.plan("add_one", ROWS)
    one.faults(deserialize="oom")
    with pytest.raises(LoadError, match="no memory for a plan") as caught:
        one.serve(path)
    assert caught.value.detail == {"code": "engine.out_of_memory"}
    one.faults(alloc_above=4000)
    with pytest.raises(LoadError, match="no GPU memory for this batch") as caught:
        one.serve(path)
    assert caught.value.detail == {"code": "engine.out_of_memory"}


def test_a_missing_file_and_a_missing_library_are_told(gpu):
    one = gpu()
    with pytest.raises(LoadError, match="gone.plan: cannot be read: No such file"):
        one.serve(one.folder / "gone.plan")
    one.faults(cuda_init=100)
    one._forget()
    with pytest.raises(LoadError, match="finds no GPU") as caught:
        one.serve(one.plan("add_one", ROWS))
    assert caught.value.detail == {"code": "engine.no_device"}


def test_a_dla_core_is_asked_for_where_there_is_one(gpu):
    one = gpu(dla_cores=2)
    path = one.plan("add_one", ROWS, dla_core=1)
    served = one.serve(path, tensorrt={"dla_core": 1})
    numpy.testing.assert_array_equal(served.output(served.run(served.request(rows(0, 3)))[0]), rows(0, 3) + 1)
    assert served.engine._plan.key[-1] == 1
    with pytest.raises(LoadError, match="wants DLA core 2, and this device has 2"):
        one.serve(path, tensorrt={"dla_core": 2})


@pytest.mark.parametrize(("version", "engines"), [("10.3.0", 1), ("8.6.1", 2), ("8.2", 2)])
def test_instances_share_a_plan_where_the_library_lets_them(gpu, version, engines):
    one = gpu(version=version)
    path = one.plan("add_one", ROWS)
    first, second = one.serve(path), one.serve(path)
    assert one.live()["ICudaEngine"] == engines
    for served in (first, second):
        numpy.testing.assert_array_equal(served.output(served.run(served.request(rows(0, 3)))[0]), rows(0, 3) + 1)
    first.close()
    numpy.testing.assert_array_equal(second.output(second.run(second.request(rows(9, 8)))[0]), rows(9, 8) + 1)


def test_a_plan_that_was_replaced_is_read_anew(gpu):
    one = gpu()
    first = one.serve(one.plan("add_one", ROWS))
    path = one.plan("same_fp32", ((1, 2), (4, 2), (8, 2)))
    (one.folder / "same_fp32.plan").replace(one.folder / "add_one.plan")
    second = one.serve(one.folder / "add_one.plan")
    assert path
    numpy.testing.assert_array_equal(first.output(first.run(first.request(rows(0, 2)))[0]), rows(0, 2) + 1)
    numpy.testing.assert_array_equal(second.output(second.run(second.request(rows(0, 2, 2)))[0]), rows(0, 2, 2))


@pytest.mark.parametrize(("version", "integrated"), [("8.2", True), ("10.3.0", False)])
def test_a_thousand_loads_leave_nothing(gpu, version, integrated):
    one = gpu(version=version, integrated=integrated)
    path = one.plan("add_one", ROWS)

    def once(number):
        served = one.serve(path, warmup=number % 10 == 0)
        if number % 10 == 0:
            served.run(served.request(rows(0, 3)))
        served.close()
        one._served.clear()
        served.arena._end = 0

    once(0)
    before = one.live()
    for number in range(1000):
        once(number)
    assert one.live() == before


def test_a_load_that_fails_leaves_nothing(gpu):
    one = gpu(integrated=False)
    path = one.plan("add_one", ROWS)
    one.serve(path).close()
    one._served.clear()
    before = one.live()
    one.faults(alloc_above=4000)
    for _ in range(20):
        with pytest.raises(LoadError):
            one.serve(path)
    assert one.live() == before
