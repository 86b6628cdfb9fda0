import threading
import time

import numpy
import pytest

ROWS = ((1, 4), (4, 4), (8, 4))


def rows(first, count, width=4):
    return numpy.arange(first, first + count * width, dtype=numpy.float32).reshape(count, width)


@pytest.fixture
def gated(gpu, tmp_path):
    """A served plan whose runs do not begin while the gate is there: (served, close, open)."""
    gate = tmp_path / "gate"

    def make(**choices):
        one = gpu(**choices)
        served = one.serve(one.plan("add_one", ROWS))

        def close():
            gate.touch()
            one.faults(compute_gate=gate)

        return served, close, gate.unlink

    return make


@pytest.mark.parametrize("version", ["8.2", "8.5", "10.3.0"])
@pytest.mark.parametrize("integrated", [True, False], ids=["zero-copy", "staged"])
def test_the_next_batch_is_on_the_device_before_the_running_one_ends(gated, version, integrated):
    served, close, open_ = gated(version=version, integrated=integrated)
    close()
    first, second = rows(100, 8), rows(200, 3)
    served.send(served.request(first))
    served.send(served.request(second, room=1))

    def there(number, array):
        found = served.on_device(number, "x", array.dtype, array.shape)
        return found is not None and (found == array).all()

    # the first run cannot have ended, and the second one's inputs lie beside the first one's
    served.until(lambda: any(there(n, first) and there(1 - n, second) for n in (0, 1)))
    assert served.silent
    open_()
    for number, array in ((1, first), (2, second)):
        batch, (answer,), times = served.receive()
        assert batch == number
        assert times.infer_ns > 0
        numpy.testing.assert_array_equal(served.output(answer), array + 1)


def test_a_third_batch_waits_for_memory_and_takes_none_from_the_others(gated):
    served, close, open_ = gated()
    close()
    arrays = [rows(1000 * number, 1 + number) for number in range(5)]
    for number, array in enumerate(arrays):
        served.send(served.request(array, room=number))
    served.until(served.engine._free.empty)
    assert served.silent
    open_()
    for number, array in enumerate(arrays):
        batch, (answer,), _ = served.receive()
        assert batch == number + 1
        numpy.testing.assert_array_equal(served.output(answer), array + 1)


def test_a_batch_that_cannot_run_is_answered_in_its_turn(gated):
    served, close, open_ = gated()
    close()
    served.send(served.request(rows(0, 2)))
    served.send(served.request(rows(0, 9), room=1))
    served.send(served.request(rows(9, 1), room=2))
    served.until(served.engine._free.empty)
    assert served.silent
    open_()
    assert [served.receive()[0] for _ in range(3)] == [1, 2, 3]


def test_an_instance_that_is_ended_ends_what_runs_first(gated):
    served, close, open_ = gated()
    close()
    served.send(served.request(rows(0, 2)))
    served.until(lambda: served.engine._free.qsize() == 1)
    assert not served.instance.end(0.2)
    assert served.engine._sets, "the memory of a run was freed under it"
    open_()
    assert served.instance.end(20)
    assert served.engine._sets == []


def test_the_time_of_a_run_does_not_count_the_one_before(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    one.faults(compute_ms=200)
    started = time.perf_counter()
    for number in range(3):
        served.send(served.request(rows(0, 1), room=number))
    spent_ns = sum(served.receive()[2].infer_ns for _ in range(3))
    assert spent_ns <= (time.perf_counter() - started) * 1e9


def test_rubbish_on_the_channel_does_not_end_the_threads(gpu, capfd):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    for rubbish in (b"\xff" * 40, b"\x01", b"\x01\x63" + b"\0" * 10, b"\x01\x03" + b"\0" * 10):
        served.ours.send(rubbish)
    numpy.testing.assert_array_equal(served.output(served.run(served.request(rows(0, 2)))[0]), rows(0, 2) + 1)
    assert "Traceback" in capfd.readouterr()[1]


def test_results_that_nobody_takes_leave_no_thread(gated):
    served, close, open_ = gated()
    close()
    served.send(served.request(rows(0, 2)))
    served.until(lambda: served.engine._free.qsize() == 1)
    served.ours.close()
    open_()
    assert served.instance.end(20)
    served.until(lambda: not [one for one in threading.enumerate() if one.name.endswith("-answers")])


def test_many_instances_at_once_never_mix_their_rows(gpu):
    """B011 with several threads over one shared plan."""
    one = gpu(integrated=False)
    path = one.plan("add_one", ROWS)
    served = [one.serve(path) for _ in range(3)]
    wanted = {}
    for turn in range(60):
        for number, instance in enumerate(served):
            array = rows(100000 * number + 100 * turn, 1 + (turn * 7 + number) % 8)
            wanted[number, turn % 2] = array
            instance.send(instance.request(array, room=2 * number + turn % 2))
        if turn % 2:
            for number, instance in enumerate(served):
                for half in (0, 1):
                    answer = instance.receive()[1][0]
                    numpy.testing.assert_array_equal(instance.output(answer), wanted[number, half] + 1)
                instance.arena._end = 0
