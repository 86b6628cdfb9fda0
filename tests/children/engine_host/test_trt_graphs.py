import ctypes

import numpy
import pytest

from edge_agent.engine_host.trt.graphs import Graphs

ROWS = ((1, 4), (4, 4), (8, 4))


def rows(first, count, width=4):
    return numpy.arange(first, first + count * width, dtype=numpy.float32).reshape(count, width)


def run(served, first, count):
    array = rows(first, count)
    served.arena._end = 0
    (answer,) = served.run(served.request(array))
    numpy.testing.assert_array_equal(served.output(answer), array + 1)


@pytest.mark.parametrize("version", ["8.2", "8.6.1", "10.3.0", "11.4.0"])
@pytest.mark.parametrize("integrated", [True, False], ids=["zero-copy", "staged"])
def test_runs_that_repeat_are_launched_as_graphs_with_the_same_answers(gpu, version, integrated):
    one = gpu(version=version, integrated=integrated)
    served = one.serve(one.plan("add_one", ROWS))
    for turn in range(40):
        run(served, 1000 * turn, (1, 8, 3)[turn % 3] if turn > 25 else 4)
    assert served.engine.graphs.on
    assert served.engine.graphs.launched > 10


def test_graphs_can_be_forbidden(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS), tensorrt={"cuda_graphs": False})
    for turn in range(10):
        run(served, turn, 4)
    assert len(served.engine.graphs) == served.engine.graphs.launched == 0


def test_graphs_go_when_their_memory_moves(gpu):
    one = gpu(integrated=False)
    served = one.serve(one.plan("add_one_any", ((1, 1), (1, 4), (8, 4096))))
    for turn in range(12):
        run(served, turn, 2)
    graphs = served.engine.graphs
    assert len(graphs) == 2  # one for each set of buffers
    for _ in range(2):
        array = numpy.ones((4, 2048), numpy.float32)
        (answer,) = served.run(served.request(array, capacity=1 << 16))
        assert (served.output(answer) == 2).all()
    assert len(graphs) == 0
    for turn in range(24):  # more than before: they went once
        run(served, turn, 2)
    assert len(graphs) == 2


@pytest.mark.parametrize("version", ["8.2", "8.6.1", "10.3.0", "11.4.0"])
@pytest.mark.parametrize("integrated", [True, False], ids=["zero-copy", "staged"])
def test_no_graph_outlives_a_change_of_sizes_or_profile(gpu, version, integrated, capfd):
    """NVIDIA calls the launch of a graph undefined once its context was changed: the fake writes rubbish then."""
    one = gpu(version=version, integrated=integrated)
    served = one.serve(one.plan("add_one", ((1, 4), (1, 4), (2, 4)), ((1, 4), (8, 4), (8, 4))))
    launched = []
    for turn, (size, times) in enumerate([(8, 12), (1, 3), (8, 30), (2, 30), (5, 1), (2, 60), (8, 60), (1, 60)]):
        for number in range(times):
            run(served, 10000 * turn + 10 * number, size)
        launched.append(served.engine.graphs.launched)
    assert served.engine.graphs.on
    assert launched == sorted(launched)
    assert launched[-1] > launched[2] > launched[0] > 0
    assert "without CUDA graphs" not in capfd.readouterr()[1]


def test_sizes_by_turns_are_right_and_record_nothing_before_they_ran_plainly(gpu, capfd):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    for turn in range(60):
        run(served, 100 * turn, (8, 8, 1, 1)[turn % 4])
    assert served.engine.graphs.on
    assert "without CUDA graphs" not in capfd.readouterr()[1]


@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
@pytest.mark.parametrize("profiles", [(ROWS,), (((1, 4), (2, 4), (2, 4)), ROWS)], ids=["sizes", "profile"])
def test_the_context_is_told_nothing_new_while_a_graph_of_it_runs(gpu, tmp_path, version, profiles):
    one = gpu(version=version)
    served = one.serve(one.plan("add_one", *profiles))
    for turn in range(20):
        run(served, turn, 4)
    assert served.engine.graphs.launched
    gate = tmp_path / "gate"
    gate.touch()
    one.faults(compute_gate=gate)
    first, second = rows(100, 4), rows(200, 2)
    served.send(served.request(first))
    served.until(lambda: served.engine._free.qsize() == 1)
    served.send(served.request(second, room=1))
    served.until(served.engine._free.empty)
    gate.unlink()
    for array in (first, second):
        numpy.testing.assert_array_equal(served.output(served.receive()[1][0]), array + 1)


def test_few_graphs_are_kept_however_many_sizes_come(gpu):
    one = gpu()
    served = one.serve(one.plan("add_one_any", ((1, 1), (1, 64), (8, 64))))
    found = set()
    for width in range(1, 12):
        for turn in range(30):
            array = rows(turn, 1, width)
            served.arena._end = 0
            numpy.testing.assert_array_equal(served.output(served.run(served.request(array))[0]), array + 1)
        found.add(len(served.engine.graphs))
    assert max(found) == 2
    executables = one.live()
    served.close()
    one._served.clear()
    assert one.live().get("graphs", 0) == 0
    assert executables


class Driver:
    """A driver whose answers are told, and what was asked of it."""

    def __init__(self, **codes):
        self.codes = codes
        self.alive = 0
        self.calls = []

    def _code(self, name):
        self.calls.append(name)
        return self.codes.get(name, 0)

    def cuStreamBeginCapture_v2(self, stream, mode):
        return self._code("begin")

    def cuStreamEndCapture(self, stream, graph):
        code = self._code("end")
        ctypes.cast(graph, ctypes.POINTER(ctypes.c_void_p))[0] = None if code else 17
        self.alive += not code
        return code

    def cuGraphInstantiateWithFlags(self, made, graph, flags):
        code = self._code("instantiate")
        ctypes.cast(made, ctypes.POINTER(ctypes.c_void_p))[0] = 18
        self.alive += not code
        return code

    def cuGraphLaunch(self, graph, stream):
        return self._code("launch")

    def cuGraphDestroy(self, graph):
        self.alive -= 1
        return 0

    cuGraphExecDestroy = cuGraphDestroy


@pytest.mark.parametrize("step", ["begin", "end", "instantiate"])
def test_a_recording_that_fails_turns_graphs_off_with_one_line(capfd, step):
    driver = Driver(**{step: 901})
    graphs = Graphs(driver, "plan")
    assert not graphs.record("key", 1, lambda: True)
    assert not graphs.on
    assert not graphs.launch("key", 1)
    assert driver.alive == 0
    assert capfd.readouterr()[1].count("runs without CUDA graphs") == 1


def test_a_run_that_refuses_to_be_recorded_ends_the_recording(capfd):
    driver = Driver()
    graphs = Graphs(driver, "plan")
    assert not graphs.record("key", 1, lambda: False)
    assert driver.calls == ["begin", "end"]
    assert driver.alive == 0
    assert "cannot be recorded" in capfd.readouterr()[1]


def test_a_recording_never_fails_a_request(gpu, capfd):
    one = gpu()
    served = one.serve(one.plan("add_one", ROWS))
    served.engine.graphs._native = Driver(end=901)
    for turn in range(12):
        run(served, turn, 4)
    assert not served.engine.graphs.on
    assert "runs without CUDA graphs" in capfd.readouterr()[1]


def test_a_driver_without_graphs_is_no_fault():
    assert not Graphs(object(), "plan").on


def test_the_instantiation_of_older_drivers_is_known():
    class Older(Driver):
        cuGraphInstantiateWithFlags = None

        def cuGraphInstantiate_v2(self, made, graph, node, log, size):
            return Driver.cuGraphInstantiateWithFlags(self, made, graph, None)

    graphs = Graphs(Older(), "plan")
    assert graphs.record("key", 1, lambda: True)
    assert graphs.launch("key", 1)


def test_what_came_three_times_is_due_and_not_before():
    graphs = Graphs(Driver(), "plan")
    seen = []
    for _ in range(4):
        seen.append(graphs.due("key"))
        graphs.ran("key")
    assert seen == [False, False, False, True]


def test_graphs_that_were_dropped_are_awaited_longer_but_not_for_ever():
    graphs = Graphs(Driver(), "plan")
    waited = []
    for _ in range(8):
        count = 0
        while not graphs.due("key"):
            graphs.ran("key")
            count += 1
        waited.append(count)
        assert graphs.record("key", 1, lambda: True)
        graphs.drop()
    assert waited == [3, 6, 12, 24, 48, 64, 64, 64]
    assert len(graphs) == 0
