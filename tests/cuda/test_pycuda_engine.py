"""The TensorRT runtime of the engine host on the real PyCUDA; the engines themselves are the fake library's."""

from __future__ import annotations

import pytest

from tests import fake_gpu
from tests.serving_rig import MODELS

EXIT_ENGINE_BROKEN = 76

#: a board with memory of its own, and one that shares the CPU's coherently
STAGED = {"integrated": 0}
SHARED = {"integrated": 1, "compute_major": 8, "compute_minor": 7}
NANO = {"integrated": 1, "compute_major": 5, "compute_minor": 3}
BOARDS = {"argvalues": [STAGED, SHARED], "ids": ["own memory", "shared memory"]}

#: what one loaded model of one input and one output holds
HELD = {"contexts": 1, "streams": 3, "events": 6}


def begin(plan, **options):
    """Scripts start with this: the bench, the plan and an engine of it."""
    return "from engine_bench import *\nPLAN = %r\nopened = open_plan(PLAN, **%r)\n" % (plan, options)


@pytest.fixture
def tiny_plan(tmp_path):
    """A plan for up to eight rows of four."""
    profile = {"x": ((1, 4), (2, 4), (8, 4))}
    return str(fake_gpu.make_plan(MODELS / "add_one.onnx", tmp_path / "tiny.plan", profiles=[profile]))


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("board", [STAGED, SHARED, NANO], ids=["own memory", "shared memory", "Nano"])
def test_numbers_are_right_whatever_sizes_follow_each_other(each_gpu, make_plan, board, asynchronous):
    plan = make_plan((board.get("compute_major", 8), board.get("compute_minor", 7)))
    one = each_gpu(asynchronous=asynchronous, **board)
    sizes = [(8, 16), (2, 16), (8, 16), (1, 1), (3, 700), (64, 5), (1, 65536), (2, 16)]
    script = "done([ask(opened, seed, *size) for seed, size in enumerate(%r)])" % (sizes,)
    assert one.says(begin(plan), script) == [str([True] * len(sizes))]


def test_with_memory_of_its_own_each_byte_is_copied_once_each_way_out_of_page_locked_memory(gpu, plan):
    one = gpu(asynchronous=1, **STAGED)
    assert one.says(begin(plan), "done(ask(opened, 1, 8, 16), ask(opened, 2, 3, 16))") == ["True True"]
    copied = (8 + 3) * 16 * 4
    assert [one.driver[name] for name in ("bytes_to_device", "bytes_to_host")] == [copied, copied]
    assert one.driver["pageable_async"] == 0


def test_where_memory_is_shared_and_coherent_nothing_is_copied(gpu, plan):
    one = gpu(asynchronous=1, **SHARED)
    assert one.says(begin(plan), "done(ask(opened, 1, 8, 16), ask(opened, 2, 3, 16))") == ["True True"]
    assert [one.driver[name] for name in ("copies_to_device", "copies_to_host", "allocations")] == [0, 0, 0]
    assert one.driver["host_allocations"] > 0


def test_shared_memory_that_is_not_coherent_is_not_used_in_place(gpu, make_plan):
    one = gpu(**NANO)
    assert one.says(begin(make_plan((5, 3))), "done(ask(opened, 1, 8, 16))") == ["True"]
    assert one.driver["copies_to_device"] == 1
    assert one.driver["allocations"] > 0


@pytest.mark.parametrize("board", **BOARDS)
def test_the_next_run_is_put_in_place_while_one_is_on_its_way(gpu, plan, board):
    """Nothing of the device moves, and still both runs are begun; a third one would have to wait for memory."""
    one = gpu(asynchronous=1, gate=1, **board)
    script = """
    first = begin(opened, 1, 4, 16)
    second = begin(opened, 2, 6, 16)
    print("both are begun")
    done(right(first, 1, 4, 16), right(second, 2, 6, 16), ask(opened, 3, 5, 16))
    """
    running = one.start(begin(plan, cuda_graphs=False), script)
    assert running.line() == "both are begun"
    assert one.driver["host_functions"] == 0
    one.driver["gate"] = 0
    assert running.end().lines == ["True True True"]
    assert one.driver["spinning_waits"] == 0


def test_waits_sleep_unless_spinning_was_asked_for(gpu, plan):
    one, other = gpu(asynchronous=1), gpu(asynchronous=1)
    script = """
    import pycuda.driver as cuda
    cuda.Stream().synchronize()  # as the context says
    done(all(ask(opened, seed) for seed in range(20)))
    """
    assert one.says(begin(plan), script) == ["True"]
    assert one.driver["spinning_waits"] == 0
    assert other.says(begin(plan, spin=True), script) == ["True"]
    assert other.driver["spinning_waits"] >= 20


@pytest.mark.parametrize("asynchronous", [0, 1])
@pytest.mark.parametrize("board", **BOARDS)
def test_a_shape_that_comes_again_is_launched_as_a_graph_with_the_same_answers(each_gpu, plan, board, asynchronous):
    one = each_gpu(asynchronous=asynchronous, **board)
    script = """
    print(all(ask(opened, seed, 4, 16) for seed in range(20)), len(opened.graphs), opened.graphs.launched > 0)
    print(ask(opened, 30, 64, 700), ask(opened, 31, 4, 16))  # the memory has moved
    print(all(ask(opened, seed, 4, 16) for seed in range(40, 60)), opened.graphs.on)
    opened.close()
    done()
    """
    lines = one.says(begin(plan), script)
    assert lines[0].startswith("True")
    assert lines[0].endswith("True")
    assert lines[1:] == ["True True", "True True"]
    assert one.driver["graph_launches"] > 10
    assert one.driver.live() == {"contexts": 1}


@pytest.mark.parametrize("function", ["cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags"])
def test_a_capture_that_fails_turns_graphs_off_with_one_line_and_no_wrong_answer(gpu, plan, function):
    one = gpu(asynchronous=1)
    one.driver.fail(function, 901, repeat=True)
    done = one.run(begin(plan), "done(all(ask(opened, seed) for seed in range(20)), opened.graphs.on)")
    assert done.lines == ["True False"]
    assert done.errors.count("runs without CUDA graphs") == 1
    assert one.driver.live().get("graphs", 0) == one.driver.live().get("graph_execs", 0) == 0


def test_captures_are_not_spoilt_by_other_threads_that_take_memory(gpu, plan):
    """Four instances share an engine; each has its shapes and grows while the others record."""
    one = gpu(asynchronous=1)
    script = """
    def work(number):
        mine = open_plan(PLAN)
        good = all(ask(mine, 100 * number + turn, 1 + (turn // 8) * (number + 1), 16 + turn // 8) for turn in range(64))
        answer = good, mine.graphs.on, mine.graphs.launched > 0
        mine.close()
        return answer
    answers = []
    threads = [threading.Thread(target=lambda number=number: answers.append(work(number))) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    opened.close()
    done(sorted(set(answers)), len(answers))
    """
    assert one.says(begin(plan), script) == ["[(True, True, True)] 4"]
    assert one.driver.live() == {"contexts": 1}
    assert one.driver["contexts_made"] == 0


def test_memory_grows_with_the_largest_batch_and_never_stands_twice(gpu, plan):
    one = gpu(asynchronous=1, **STAGED)
    script = """
    asked = [ask(opened, seed, rows, 16384) for seed, rows in enumerate([1, 8, 64, 2, 64, 8])]
    done(all(asked))
    """
    assert one.says(begin(plan, cuda_graphs=False), script) == ["True"]
    largest = 64 * 16384 * 4
    # an input and an output, two runs at a time
    assert one.driver["allocated_bytes"] <= 4 * largest
    assert one.driver["peak_bytes"] <= 4 * largest
    assert one.driver["allocations"] == 4


def test_want_of_memory_is_an_answer_and_later_runs_are_right(each_gpu, plan):
    one = each_gpu(asynchronous=1, memory_limit=1 << 20, **STAGED)
    script = """
    from edge_agent.engine_host.failures import RunFailed
    print(ask(opened, 1, 8, 16))
    for _ in range(3):
        try:
            ask(opened, 2, 8, 65536)
        except RunFailed as error:
            print(error.code, error)
    done([ask(opened, seed, 8, 16) for seed in range(6)])
    """
    lines = one.says(begin(plan), script)
    assert lines[0] == "True"
    assert len(lines) == 5
    assert all(line.startswith("engine.out_of_memory ") and "inputs of 2.1 MB" in line for line in lines[1:4])
    assert lines[4] == str([True] * 6)


def test_a_want_of_memory_that_only_an_output_has_is_answered_too(gpu, plan):
    one = gpu(asynchronous=1, memory_limit=3 << 20, **STAGED)
    script = """
    from edge_agent.engine_host.failures import RunFailed
    try:
        ask(opened, 2, 8, 65536)
    except RunFailed as error:
        print(error.code)
    done([ask(opened, seed, 8, 16) for seed in range(6)])
    """
    assert one.says(begin(plan), script) == ["engine.out_of_memory", str([True] * 6)]


@pytest.mark.parametrize("function", ["cuMemcpyHtoDAsync_v2", "cuEventRecord", "cuEventSynchronize", "cuMemAlloc_v2"])
def test_a_cuda_error_ends_the_process_with_its_reason_as_the_last_line(gpu, plan, function):
    one = gpu(asynchronous=1, **STAGED)
    one.driver.fail(function, 700)
    done = one.run(begin(plan), "ask(opened, 1)\ndone('went on')")
    assert done.code == EXIT_ENGINE_BROKEN
    assert done.output == ""
    last = done.errors.splitlines()[-1]
    assert last.startswith("the GPU engine is broken: ")
    assert last.endswith("an illegal memory access was encountered")


def test_a_kernel_that_goes_wrong_is_seen_by_whoever_waits_for_it(gpu, plan):
    one = gpu(asynchronous=1)
    fake_gpu.set_faults(one.faults, enqueue="error")
    done = one.run(begin(plan), "done(ask(opened, 1))")
    assert done.code == EXIT_ENGINE_BROKEN
    assert "illegal memory access" in done.errors.splitlines()[-1]


def test_a_graph_that_cannot_be_launched_ends_the_process(gpu, plan):
    one = gpu()
    one.driver.fail("cuGraphLaunch", 719)
    done = one.run(begin(plan), "done([ask(opened, seed) for seed in range(9)])")
    assert done.code == EXIT_ENGINE_BROKEN
    assert "cuGraphLaunch" in done.errors.splitlines()[-1]


def test_shapes_that_no_profile_takes_leave_everything_as_it_was(gpu, tiny_plan):
    one = gpu(asynchronous=1)
    script = """
    from edge_agent.engine_host.failures import RunFailed
    print(ask(opened, 1, 8))
    for _ in range(50):
        try:
            ask(opened, 2, 9)
        except RunFailed as error:
            said = str(error)
    print(said)
    done(all(ask(opened, seed, 8) for seed in range(6)))
    """
    said = "input 'x' has shape [9, 4], the plan takes [1, 4] to [8, 4]"
    assert one.says(begin(tiny_plan), script) == ["True", said, "True"]


@pytest.mark.parametrize("board", **BOARDS)
def test_nothing_is_left_after_a_thousand_loads(gpu, tiny_plan, board):
    one = gpu(asynchronous=1, **board)
    script = """
    opened.close()
    for turn in range(1000):
        opened = open_plan(PLAN)
        runs = 6 if turn % 100 == 0 else 1  # now and then as many as make a graph
        assert all(ask(opened, turn + run, 1 + run % 2) for run in range(runs))
        opened.close()
    del opened
    from fake_gpu import counts
    done(threading.active_count(), sorted(counts.live()))
    """
    assert one.says(begin(tiny_plan), script) == ["1 ['Log', 'Runtime']"]  # those of the library itself
    assert one.driver.live() == {"contexts": 1}
    assert one.driver["contexts_made"] == 0


def test_an_engine_that_is_used_by_one_thread_after_another_holds_one_context(gpu, tiny_plan):
    one = gpu(asynchronous=1)
    script = """
    def load_and_ask(seed):
        mine = open_plan(PLAN)
        try:
            return ask(mine, seed)
        finally:
            mine.close()
    done([in_thread(load_and_ask, seed) for seed in range(5)], ask(opened, 9))
    """
    assert one.says(begin(tiny_plan), script) == ["%s True" % ([True] * 5)]
    live = one.driver.live()
    assert {name: live[name] for name in HELD} == HELD


def test_results_may_be_taken_on_a_thread_that_has_entered(gpu, tiny_plan):
    one = gpu(asynchronous=1, **STAGED)
    script = """
    def take(pending, seed):
        opened.enter()
        try:
            return right(pending, seed)
        finally:
            opened.leave()
    done([in_thread(take, begin(opened, seed), seed) for seed in range(8)])
    """
    assert one.says(begin(tiny_plan), script) == [str([True] * 8)]


def test_a_plan_for_which_there_is_no_memory_is_refused_as_that(gpu, tiny_plan):
    one = gpu()
    fake_gpu.set_faults(one.faults, deserialize="oom")
    script = """
    from engine_bench import *
    from edge_agent.engine_host.failures import LoadError
    try:
        open_plan(%r)
    except LoadError as error:
        done(error.detail)
    """
    assert one.says(script % tiny_plan) == ["{'code': 'engine.out_of_memory'}"]
    assert one.driver.live() == {"contexts": 1}


@pytest.mark.parametrize("version", ["8.2", "8.6.1", "11.4.0"])
def test_each_generation_of_tensorrt_runs_on_it(each_gpu, tmp_path, version):
    profile = {"x": ((1, 4), (2, 4), (8, 4))}
    path = fake_gpu.make_plan(MODELS / "add_one.onnx", tmp_path / "one.plan", version=version, profiles=[profile])
    one = each_gpu(version=version, asynchronous=1, **STAGED)
    assert one.says(begin(str(path)), "done(all(ask(opened, seed, 1 + seed % 8) for seed in range(40)))") == ["True"]


def test_an_output_whose_size_only_the_run_tells_gets_device_memory_in_the_midst_of_it(gpu, tmp_path):
    profile = {"x": ((1,), (8,), (4096,))}
    path = fake_gpu.make_plan(MODELS / "nonzero.onnx", tmp_path / "nonzero.plan", profiles=[profile])
    one = gpu(asynchronous=1, **STAGED)
    script = """
    def found(size):
        given = numpy.zeros(size, numpy.float32)
        given[1::2] = 1
        (where,) = opened.run(["where"], {"x": given})
        return where[0].tolist() == list(range(1, size, 2))
    done([found(size) for size in (8, 4096, 3, 64, 1)])
    """
    assert one.says(begin(str(path)), script) == [str([True] * 5)]
