import json

import numpy
import pytest

from edge_agent.engine_host import wire


def rows(first, count, width=4):
    return numpy.arange(first, first + count * width, dtype=numpy.float32).reshape(count, width)


def failure_of(answer):
    assert answer.status == wire.FAILED
    return json.loads(answer.text.decode())


def output(bench, answer, place=0):
    assert answer.status == wire.OK, answer.text
    return bench.arena.read(answer.outputs[place])


def test_each_request_gets_its_own_rows_whatever_ran_before(bench):
    b = bench("add_one")
    for sizes in ([8], [2], [8], [3, 4, 1], [1, 1], [1, 2, 5]):
        inputs = [rows(1000 * number, size) for number, size in enumerate(sizes)]
        answers = b.run(*[b.request(array, room=number) for number, array in enumerate(inputs)])
        for array, answer in zip(inputs, answers):
            numpy.testing.assert_array_equal(output(b, answer), array + 1)
        assert (b.times.last, b.times.rows) == (1, sum(sizes))


def test_times_of_a_batch_are_told(bench):
    b = bench("add_one")
    b.run(b.request(rows(0, 1)), b.request(rows(0, 1), room=1))
    assert min(b.times.input_ns, b.times.infer_ns, b.times.output_ns) > 0


def test_a_lone_request_is_not_copied_and_a_misaligned_one_is(bench):
    b = bench("add_one")
    ref = b.arena.put(0, rows(5, 1), misaligned=3)
    request = wire.RequestRef([ref], (), 0, 1, 3, 512 << 10, 4096)
    numpy.testing.assert_array_equal(output(b, b.run(request)[0]), rows(5, 1) + 1)


def test_outputs_come_in_the_order_asked_and_only_those(bench):
    b = bench("sum_and_difference")
    left, right = rows(10, 2, 2), rows(0, 2, 2)
    both, one = b.run(b.request(left, right, outputs=(1, 0)), b.request(left, right, outputs=(1,), room=1))
    assert [ref.index for ref in both.outputs] == [1, 0]
    numpy.testing.assert_array_equal(output(b, both, 0), left - right)
    numpy.testing.assert_array_equal(output(b, both, 1), left + right)
    assert [ref.index for ref in one.outputs] == [1]
    assert all(ref.offset % wire.ALIGNMENT == 0 for ref in both.outputs)


def test_a_bad_reference_fails_its_request_only(bench):
    b = bench("add_one")
    good, outside, elsewhere = (b.request(rows(number, 1), room=number) for number in range(3))
    change_input(outside, offset=1 << 40)
    change_input(elsewhere, segment=99)
    first, second, third = b.run(good, outside, elsewhere)
    numpy.testing.assert_array_equal(output(b, first), rows(0, 1) + 1)
    assert "outside segment" in failure_of(second)["text"]
    assert "not attached" in failure_of(third)["text"]


def test_a_bad_first_request_does_not_decide_the_shape_of_the_others(bench):
    b = bench("add_one")
    bad, good = b.request(rows(0, 1)), b.request(rows(7, 2), room=1)
    change_input(bad, nbytes=4)
    first, second = b.run(bad, good)
    assert failure_of(first)["code"] == "engine.bad_reference"
    numpy.testing.assert_array_equal(output(b, second), rows(7, 2) + 1)


def change_input(request, **fields):
    request.inputs[0] = request.inputs[0]._replace(**fields)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda request: request.inputs.clear(), "'x' is missing"),
        (lambda request: request.inputs.append(request.inputs[0]), "came twice"),
        (lambda request: change_input(request, index=7), "number 7 is unknown"),
        (lambda request: change_input(request, datatype=wire.DATATYPE_CODES["INT32"]), "is FP32, not INT32"),
        (lambda request: change_input(request, shape=(1, 2, 2)), r"shape \[-1, 4\], not \[1, 2, 2\]"),
        (lambda request: change_input(request, shape=(4,)), r"shape \[-1, 4\], not \[4\]"),
        (lambda request: setattr(request, "rows", 2), "has 1 rows, the request 2"),
        (lambda request: setattr(request, "outputs", (3,)), "no output number 3"),
        (lambda request: setattr(request, "segment", 42), "segment 42 is not attached"),
    ],
)
def test_a_request_that_does_not_fit_the_model_is_told_why(bench, spoil, says):
    b = bench("add_one")
    bad, good = b.request(rows(0, 1)), b.request(rows(0, 1), room=1)
    spoil(bad)
    first, second = b.run(bad, good)
    assert second.status == wire.OK
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(failure_of(first)["text"])


def test_requests_of_other_shapes_do_not_join_a_batch(bench):
    b = bench("add_one_any")
    first, second = b.run(b.request(rows(0, 1, 3)), b.request(rows(0, 1, 5), room=1))
    assert first.status == wire.OK
    assert "cannot share a batch" in failure_of(second)["text"]


def test_a_run_that_fails_answers_everybody_and_the_next_run_works(bench):
    b = bench("lookup")
    wrong = [b.request(numpy.array([[index]], numpy.int64), datatype="INT64", room=index % 8) for index in (1, 99)]
    for answer in b.run(*wrong):
        assert failure_of(answer)["code"] == "engine.execution_failed"
        assert "indices" in failure_of(answer)["text"]
    right = b.request(numpy.array([[2]], numpy.int64), datatype="INT64")
    assert output(b, b.run(right)[0]).tolist() == [[20.0]]


def test_rows_that_do_not_match_fail_the_whole_batch(bench):
    b = bench("sum_of_batch", warmup=False)
    first, second = b.run(b.request(rows(0, 1)), b.request(rows(0, 1), room=1))
    assert "has 1 rows for 2 rows of input" in failure_of(first)["text"]
    assert failure_of(second) == failure_of(first)


def test_a_model_of_one_row_runs_several_requests_one_by_one(bench):
    b = bench("add_one_fixed")
    answers = b.run(*[b.request(rows(number, 1), room=number) for number in range(3)])
    for number, answer in enumerate(answers):
        numpy.testing.assert_array_equal(output(b, answer), rows(number, 1) + 1)
    assert b.times.rows == 3


def test_strings_go_in_and_out_batched(bench):
    b = bench("same_text")
    first = numpy.array([["a", "größer"]], object)
    second = numpy.array([["", "zwei"], ["x" * 300, "y"]], object)
    answers = b.run(b.request(first, datatype="BYTES"), b.request(second, datatype="BYTES", room=1))
    assert output(b, answers[0]).tolist() == first.tolist()
    assert output(b, answers[1]).tolist() == second.tolist()


def test_half_precision_goes_through(bench):
    b = bench("same_half")
    array = numpy.array([[0.1, -2.5, 65504.0]], numpy.float16)
    assert output(b, b.run(b.request(array, datatype="FP16"))[0]).tobytes() == array.tobytes()


def test_an_output_that_does_not_fit_waits_for_its_slot(bench):
    b = bench("nonzero", max_batch_size=0)
    array = numpy.tile(numpy.float32([0, 1]), 1000)
    (answer,) = b.run(b.request(array, capacity=4096))
    assert (answer.status, answer.need) == (wire.NO_ROOM, 8000)
    assert b.times.last
    again = b.room(0, 600 << 10, 4096)
    assert (again.status, again.need) == (wire.NO_ROOM, 8000)
    given = b.room(0, 600 << 10, 8192)
    assert not b.times.last
    assert given.outputs[0].offset == 600 << 10
    assert output(b, given)[0].tolist() == list(range(1, 2000, 2))


def test_a_request_without_a_slot_waits_for_one(bench):
    b = bench("add_one")
    first, second = b.run(b.request(rows(0, 1), capacity=0), b.request(rows(9, 1), room=1))
    assert (first.status, first.need) == (wire.NO_ROOM, 16)
    numpy.testing.assert_array_equal(output(b, second), rows(9, 1) + 1)
    b.run(b.request(rows(70, 8), room=2))
    b.batch -= 1
    numpy.testing.assert_array_equal(output(b, b.room(0, 600 << 10, 4096)), rows(0, 1) + 1)


class Echo:
    """An engine that answers with its input's own memory."""

    apart, text = False, True

    def run(self, names, feeds):
        return [feeds["x"]]


def test_a_kept_answer_does_not_change_when_its_input_does(bench):
    b = bench("same_half")
    b.model.engine = Echo()
    array = numpy.array([[1, 2]], numpy.float16)
    request = b.request(array, datatype="FP16", capacity=0)
    b.run(request)
    b.arena.write(request.inputs[0].offset, b"\xff" * 4)
    assert output(b, b.room(0, 600 << 10, 4096)).tolist() == [[1.0, 2.0]]


def test_a_dropped_answer_is_gone(bench):
    b = bench("add_one")
    b.run(b.request(rows(0, 1), capacity=0))
    assert b.runner.handle(wire.pack_drop(b.batch, 0)) == []
    assert failure_of(b.room(0, 600 << 10, 4096))["code"] == "engine.answer_dropped"


def test_a_room_outside_the_segment_is_an_error_of_that_request(bench):
    b = bench("add_one")
    b.run(b.request(rows(0, 1), capacity=0))
    assert "outside segment" in failure_of(b.room(0, 1 << 40, 4096))["text"]


def test_an_output_without_elements_is_answered(bench):
    b = bench("nonzero", max_batch_size=0)
    (answer,) = b.run(b.request(numpy.zeros(5, numpy.float32)))
    assert output(b, answer).shape == (1, 0)


def test_a_malformed_batch_is_answered_for_every_request(bench):
    b = bench("add_one")
    data = wire.pack_execute(1, [b.request(rows(0, 1)), b.request(rows(0, 1))])
    b.batch = 1
    for answer in b.answers(b.runner.handle(data[:60]), 2):
        assert "malformed" in failure_of(answer)["text"]


def test_detections_come_as_text_and_tensors_beside_them(bench):
    b = bench("mean_colour", decode={"kind": "classification", "labels": ["red", "green"], "min_score": 0.1, "max_objects": 5})
    green = numpy.zeros((1, 3, 8, 8), numpy.float32)
    green[:, 1], green[:, 2] = 0.75, 0.25
    decoded, plain = b.run(b.request(green, decode=True, capacity=0), b.request(green, room=1))
    assert decoded.status == wire.OK
    assert decoded.outputs == []
    expected = [{"label": "green", "score": 0.75, "box": None}, {"label": "class_2", "score": 0.25, "box": None}]
    assert json.loads(decoded.text.decode()) == {"objects": expected}
    numpy.testing.assert_allclose(output(b, plain), [[0, 0.75, 0.25]])


def test_each_picture_of_a_batch_gets_its_own_boxes(bench):
    b = bench("boxes", decode={"kind": "yolo", "min_score": 0.5})
    pictures = []
    for left in (0.0, 2.0):
        found = numpy.zeros((12, 6), numpy.float32)
        found[4] = [left, 1, left + 2, 3, 0.9, 7]
        pictures.append(found.reshape(1, 3, 4, 6))
    answers = b.run(*[b.request(picture, decode=True) for picture in pictures])
    boxes = [json.loads(answer.text.decode())["objects"] for answer in answers]
    assert [(found["label"], found["box"]) for (found,) in boxes] == [("class_7", [0, 1, 2, 3]), ("class_7", [2, 1, 4, 3])]


def test_detections_need_a_decoder_and_one_picture(bench):
    without = bench("mean_colour")
    picture = numpy.zeros((2, 3, 8, 8), numpy.float32)
    (answer,) = without.run(without.request(picture[:1], decode=True))
    assert failure_of(answer)["code"] == "engine.no_decoder"
    with_one = bench("mean_colour", decode={"kind": "classification"})
    (answer,) = with_one.run(with_one.request(picture, decode=True))
    assert "one picture" in failure_of(answer)["text"]


def test_a_decoder_that_fails_fails_its_request_only(bench, tmp_path):
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    def __init__(self, config):\n        self.names = [spec['name'] for spec in config['outputs']]\n"
        "    def decode(self, outputs):\n"
        "        scores = outputs[self.names[0]]\n"
        "        if scores.max() > 5:\n            raise ValueError('too bright')\n"
        "        return [[{'label': 'grey', 'score': row[0], 'box': None, 'mean': row}] for row in scores]\n"
    )
    b = bench("mean_colour", directory=str(tmp_path), decode={"kind": "python:mine:Mine"})
    dark, bright = numpy.full((1, 3, 8, 8), 0.5, numpy.float32), numpy.full((1, 3, 8, 8), 9, numpy.float32)
    good, bad = b.run(b.request(dark, decode=True), b.request(bright, decode=True))
    expected = {"label": "grey", "score": 0.5, "box": None, "mean": [0.5, 0.5, 0.5]}
    assert json.loads(good.text.decode())["objects"] == [expected]
    assert failure_of(bad)["code"] == "engine.decode_failed"
    assert "ValueError: too bright" in failure_of(bad)["text"]
