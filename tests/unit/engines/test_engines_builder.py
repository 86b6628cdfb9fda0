"""Real builder children on the tests' TensorRT: what they make, how they end, and what is left then."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import time
from pathlib import Path

import pytest

from edge_agent.domain.clock import Clock
from edge_agent.engines.build_order import MIB, BuildOrder, ProfileRange
from edge_agent.engines.build_watch import BuildLimits
from edge_agent.engines.builder import Builder
from edge_agent.errors import BuildFailed
from edge_agent.processes.process import Process
from tests.fake_gpu import gpu_python, set_faults
from tests.serving_rig import MODELS

PATIENCE_S = 30.0
PHASES = ("parse", "build", "serialize")


async def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        await asyncio.sleep(0.01)


def process(pid, name):
    """A file of a process; empty when it is gone."""
    try:
        return Path("/proc/%d/%s" % (pid, name)).read_text()
    except OSError:
        return ""


class Rig:
    """A builder on a board that is a folder."""

    def __init__(self, folder, **limits):
        self.folder = folder
        self.faults = folder / "faults.json"
        self.gate = folder / "gate"
        self.shelf = folder / "shelf"
        self.shelf.mkdir()
        self.root = folder / "root"
        (self.root / "proc").mkdir(parents=True)
        self.memory(available=2048)
        self.events = []
        self.told = []
        self.limits = BuildLimits(**{"look_s": 0.05, "memory_share_bytes": 128 * MIB, **limits})
        self.python = ""
        self.builder = None

    def use(self, python="", **device):
        self.python = python or gpu_python(self.folder, faults=self.faults, **device)
        told = lambda kind, name, text: self.events.append((kind, name, text))  # noqa: E731
        self.builder = Builder(self.python, Clock(), self.root, told, self.limits)
        return self

    def memory(self, available, free=50, total=8000):
        """The board's memory in MB."""
        path = self.root / "proc/meminfo"
        beside = path.with_suffix(".new")
        lines = {"MemTotal": total, "MemFree": free, "MemAvailable": available}
        beside.write_text("".join("%s: %d kB\n" % (name, size * 1024) for name, size in lines.items()))
        os.replace(beside, path)

    def order(self, model="add_one.onnx", **fields):
        return BuildOrder(
            **{
                "label": "m/1",
                "onnx_path": str(MODELS / model),
                "output_path": str(self.shelf / ".plan.tmp"),
                "timing_cache_path": str(self.shelf / "timing.cache"),
                "workspace_bytes": (256 * MIB, 64 * MIB),
                "precision": "fp32",
                "timeout_s": 60.0,
                **fields,
            }
        )

    async def build(self, *args, **fields):
        return await self.builder.build(self.order(*args, **fields), self.told.append)

    async def fails(self, *args, **fields):
        with pytest.raises(BuildFailed) as failed:
            await self.build(*args, **fields)
        self.look_that_nothing_is_left()
        return failed.value

    def begin(self, **fields):
        return asyncio.ensure_future(self.build(**fields))

    def hold(self, phase):
        """Fields of an order that stays in a phase: a pipe that nobody writes to, a closed gate, a pipe that nobody reads."""
        if phase == "build":
            self.gate.touch()
            set_faults(self.faults, gate=str(self.gate))
            return {}
        path = self.folder / "pipe.onnx" if phase == "parse" else self.shelf / ".plan.tmp"
        os.mkfifo(path)
        return {"onnx_path": str(path), "model_bytes": 1} if phase == "parse" else {"output_path": str(path)}

    async def reached(self, phase):
        """The pid of the child, once it is in that phase."""
        await until(lambda: any(progress.phase == phase for progress in self.told))
        (pid,) = self.children()
        return pid

    @staticmethod
    def children():
        """Builders of this process."""
        found = []
        for path in Path("/proc/self/task").glob("*/children"):
            pids = [int(pid) for pid in path.read_text().split()]
            found += [pid for pid in pids if "engine_host.build.main" in process(pid, "cmdline")]
        return found

    def look_that_nothing_is_left(self):
        assert self.children() == []
        assert set(os.listdir(self.shelf)) <= {"timing.cache"}

    @property
    def phases(self):
        """In their order, each once."""
        return list(dict.fromkeys(progress.phase for progress in self.told))


@pytest.fixture
def rig(tmp_path):
    return Rig(tmp_path)


@pytest.mark.parametrize("version", ["8.2", "8.6.1", "10.3.0", "11.4.0"])
async def test_a_plan_lies_there_whole_with_its_report_and_nothing_beside(rig, version):
    report = await rig.use(version=version).build(max_batch_size=8, usual_batch_size=2)
    assert report.profiles == ({"x": ProfileRange((1, 4), (2, 4), (8, 4))},)
    assert [(tensor["name"], tensor["mode"], tensor["datatype"]) for tensor in report.io] == [
        ("x", "input", "FP32"),
        ("y", "output", "FP32"),
    ]
    assert (report.precision, report.workspace_bytes, report.warnings) == ("fp32", 256 * MIB, ())
    assert report.peak_rss_bytes > MIB
    assert rig.phases == ["parse", "build", "serialize"]
    assert rig.children() == []
    assert sorted(os.listdir(rig.shelf)) == [".plan.tmp", "timing.cache"]
    plan = (rig.shelf / ".plan.tmp").read_bytes()
    assert json.loads(plan.split(b"\n")[1])["tensorrt"] == version


async def test_the_child_gives_way_to_everything_else_and_has_no_limit_of_addresses(rig):
    """RLIMIT_AS would end a build for the address space that CUDA reserves, not for memory that it uses."""
    building = rig.use().begin(**rig.hold("build"))
    pid = await rig.reached("build")
    assert os.getpriority(os.PRIO_PROCESS, pid) == 10
    assert process(pid, "oom_score_adj").strip() == "1000"
    assert resource.prlimit(pid, resource.RLIMIT_AS) == (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert process(pid, "cmdline").split("\0")[0] == rig.python
    rig.gate.unlink()
    await building


# -- refusals ------------------------------------------------------------------------------------------------------------


async def test_what_the_builder_refuses_has_its_code_its_text_and_says_if_another_try_can_help(rig):
    bad = rig.folder / "bad.onnx"
    bad.write_bytes(b"nothing of the kind" * 9)
    failed = await rig.use().fails(onnx_path=str(bad))
    assert (failed.code, failed.permanent) == ("build.parse_failed", True)
    assert str(failed).startswith("m/1: ")
    failed = await rig.fails("add_one_any.onnx")
    assert (failed.code, failed.permanent) == ("build.no_profile", True)
    assert "profiles = [{ x = {" in str(failed)
    failed = await rig.fails(precision="int8")
    assert (failed.code, failed.permanent) == ("build.precision_unsupported", True)
    set_faults(rig.faults, build="none")
    failed = await rig.fails()
    assert (failed.code, failed.permanent) == ("build.failed", False)


async def test_a_nano_s_int8_is_refused_with_the_reason(rig):
    failed = await rig.use(version="8.2", compute_capability=(5, 3)).fails(precision="int8")
    assert (failed.code, failed.permanent) == ("build.precision_unsupported", True)
    assert "compute capability 5.3" in str(failed)


async def test_an_interpreter_without_tensorrt_says_what_is_missing(rig):
    failed = await rig.use(driver=False).fails()
    assert (failed.code, failed.permanent) == ("build.failed", False)
    assert "driver" in str(failed)


async def test_an_interpreter_that_is_not_there_is_told(rig):
    failed = await rig.use("/nowhere/python").fails()
    assert (failed.code, failed.permanent) == ("build.failed", False)
    assert "cannot be started" in str(failed)


async def test_a_disk_without_room_for_the_plan_is_told_before_anything_begins(rig):
    failed = await rig.use().fails(model_bytes=1 << 60)
    assert (failed.code, failed.permanent) == ("build.no_space", False)
    assert rig.told == []


async def test_a_folder_that_is_not_there_is_another_cause(rig):
    failed = await rig.use().fails(output_path=str(rig.folder / "gone/plan.tmp"))
    assert failed.code == "build.not_kept"


async def test_an_order_that_is_too_long_for_its_channel_is_told(rig):
    profiles = tuple({"x": ProfileRange((1,) * 900, (1,) * 900, (1,) * 900)} for _ in range(20))
    failed = await rig.use().fails(profiles=profiles)
    assert (failed.code, failed.permanent) == ("build.failed", True)


# -- memory --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["8.2", "10.3.0"])
async def test_memory_that_tensorrt_lacks_is_tried_with_less_and_each_try_is_told(rig, version):
    rig.use(version=version)
    set_faults(rig.faults, no_memory_above=100 * MIB)
    report = await rig.build()
    assert report.workspace_bytes == 64 * MIB
    texts = [progress.text for progress in rig.told if progress.text]
    assert "with a workspace of 256 MB TensorRT ran out of memory" in texts[0]
    assert rig.events == [("engine.building", "m/1", texts[0])]


async def test_a_builder_that_the_kernel_ends_for_its_memory_is_out_of_memory_and_the_agent_goes_on(rig):
    """B018, jkjung-avt/tensorrt_demos#293: `Killed` in the midst of a build on a small board, with the agent gone too."""
    building = rig.use().begin(**rig.hold("build"))
    pid = await rig.reached("build")
    beats = 0

    async def beat():
        nonlocal beats
        while True:
            beats += 1
            await asyncio.sleep(0.01)

    beating = asyncio.ensure_future(beat())
    os.kill(pid, signal.SIGKILL)  # as the kernel does: oom_score_adj 1000 makes the builder its first choice
    with pytest.raises(BuildFailed) as failed:
        await building
    assert (failed.value.code, failed.value.permanent) == ("build.out_of_memory", False)
    assert "SIGKILL" in str(failed.value)
    before = beats
    await until(lambda: beats > before + 5)
    beating.cancel()
    rig.look_that_nothing_is_left()
    rig.gate.unlink()
    assert (await rig.build()).workspace_bytes == 64 * MIB, "what ended a builder is not tried again while there is less"


async def test_the_smallest_workspace_is_tried_again_when_it_was_the_one_that_ended_a_builder(rig):
    rig.use()
    for _ in range(2):
        rig.told.clear()
        building = rig.begin(workspace_bytes=(64 * MIB,), **rig.hold("build"))
        os.kill(await rig.reached("build"), signal.SIGKILL)
        with pytest.raises(BuildFailed) as failed:
            await building
        assert failed.value.code == "build.out_of_memory"
    rig.gate.unlink()
    assert (await rig.build()).workspace_bytes == 64 * MIB


async def test_a_build_had_better_wait_while_the_machine_has_too_little_memory(rig):
    """B018, ollama/ollama#12283: what counts is MemAvailable; here both are short."""
    rig.memory(free=50, available=60)
    rig.use()
    assert (await rig.builder.wait(rig.order())).startswith("60 MB of memory are available; the build begins at 384 MB")
    rig.memory(free=50, available=2048)
    assert await rig.builder.wait(rig.order()) == ""


async def test_a_model_with_weights_beside_it_needs_memory_for_them_too(rig):
    rig.memory(available=500)
    rig.use()
    assert "begins at 784 MB" in await rig.builder.wait(rig.order(model_bytes=200 * MIB))
    assert await rig.builder.wait(rig.order(model_bytes=1)) == ""


async def test_on_a_board_with_little_memory_a_build_goes_without_the_libraries_that_cost_much_of_it(rig):
    rig.use(version="8.2")
    set_faults(rig.faults, needs_libraries=True)
    await rig.build()
    assert [progress.text for progress in rig.told if progress.text] == []
    rig.memory(available=2048, total=3964)
    await rig.build()
    (text,) = {progress.text for progress in rig.told if progress.text}
    assert "with a workspace of 256 MB TensorRT found no way to run a layer" in text


async def test_after_want_of_memory_the_next_build_goes_without_them_too(rig):
    rig.use(version="8.2")
    building = rig.begin(**rig.hold("build"))
    os.kill(await rig.reached("build"), signal.SIGKILL)
    with pytest.raises(BuildFailed):
        await building
    rig.gate.unlink()
    rig.told.clear()
    set_faults(rig.faults, needs_libraries=True)
    await rig.build(workspace_bytes=(512 * MIB, 256 * MIB))
    assert {progress.text for progress in rig.told if progress.text} != set()


@pytest.mark.parametrize(("available", "size"), [(4096, 1024), (2048, 0)])
async def test_a_larger_workspace_is_taken_only_where_the_machine_has_it_to_spare(rig, available, size):
    rig.memory(available=available)
    rig.use()
    set_faults(rig.faults, no_kernel_below=300 * MIB)
    if size:
        assert (await rig.build(larger_workspace_bytes=1024 * MIB)).workspace_bytes == size * MIB
    else:
        assert (await rig.fails(larger_workspace_bytes=1024 * MIB)).code == "build.failed"


async def test_memory_that_runs_short_ends_the_build_before_the_kernel_does(rig):
    building = rig.use().begin(**rig.hold("build"))
    await rig.reached("build")
    rig.memory(available=200)
    with pytest.raises(BuildFailed) as failed:
        await building
    assert (failed.value.code, failed.value.permanent) == ("build.out_of_memory", False)
    assert "200 MB left, under the 256 MB" in str(failed.value)
    rig.look_that_nothing_is_left()


# -- ends in each phase --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", PHASES)
async def test_a_builder_that_is_killed_in_any_phase_leaves_nothing(rig, phase):
    building = rig.use().begin(**rig.hold(phase))
    os.kill(await rig.reached(phase), signal.SIGKILL)
    with pytest.raises(BuildFailed) as failed:
        await building
    assert failed.value.code == "build.out_of_memory"
    rig.look_that_nothing_is_left()


@pytest.mark.parametrize("phase", PHASES)
async def test_a_builder_that_is_stopped_in_any_phase_is_ended(tmp_path, phase):
    rig = Rig(tmp_path, still_s=4.0)
    building = rig.use().begin(**rig.hold(phase))
    os.kill(await rig.reached(phase), signal.SIGSTOP)
    with pytest.raises(BuildFailed) as failed:
        await building
    assert (failed.value.code, failed.value.permanent) == ("build.killed", False)
    assert "no sign of life" in str(failed.value)
    rig.look_that_nothing_is_left()


@pytest.mark.parametrize("phase", PHASES)
async def test_cancelling_ends_the_builder_at_once_in_any_phase(rig, phase):
    building = rig.use().begin(**rig.hold(phase))
    pid = await rig.reached(phase)
    building.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await building
    assert building.cancelled()
    assert process(pid, "cmdline") == ""
    rig.look_that_nothing_is_left()


@pytest.mark.parametrize("phase", PHASES)
async def test_a_builder_that_takes_too_long_in_any_phase_is_ended(rig, phase):
    building = rig.use().begin(timeout_s=2.0, **rig.hold(phase))
    with pytest.raises(BuildFailed) as failed:
        await building
    assert (failed.value.code, failed.value.permanent) == ("build.timeout", False)
    assert "not done after 2 s" in str(failed.value)
    rig.look_that_nothing_is_left()


@pytest.mark.parametrize("phase", PHASES)
async def test_the_agent_s_stop_ends_the_builder_in_any_phase(rig, phase):
    building = rig.use().begin(**rig.hold(phase))
    await rig.reached(phase)
    await rig.builder.stop()
    await rig.builder.stop()
    with pytest.raises(BuildFailed) as failed:
        await building
    assert (failed.value.code, failed.value.permanent) == ("build.killed", False)
    rig.look_that_nothing_is_left()
    assert (await rig.fails()).code == "build.killed"


class Deaf:
    """Builders whose process outlives SIGKILL, as one does that waits within a driver; a stopped one does not see the rest."""

    def __init__(self, patch):
        self._kill = Process.kill
        self._processes = []

        def keep(process):
            self._processes.append(process)

        patch.setattr(Process, "kill", keep)

    def end(self):
        for process in self._processes:
            self._kill(process)


@pytest.fixture
def deaf(monkeypatch):
    made = Deaf(monkeypatch)
    yield made
    made.end()


async def test_no_build_begins_beside_a_builder_that_has_not_ended(tmp_path, deaf):
    rig = Rig(tmp_path, reap_timeout_s=0.2)
    building = rig.use().begin(**rig.hold("build"))
    pid = await rig.reached("build")
    os.kill(pid, signal.SIGSTOP)
    building.cancel()
    await asyncio.wait({building})
    assert rig.children() == [pid]
    assert "process %d" % pid in await rig.builder.wait(rig.order())
    with pytest.raises(BuildFailed, match="has not ended yet"):
        await rig.build()
    assert rig.children() == [pid]
    deaf.end()
    await until(lambda: not rig.builder.lingers())
    rig.gate.unlink()
    await rig.build()


async def test_who_is_cancelled_again_while_the_builder_ends_waits_all_the_same(tmp_path, deaf):
    rig = Rig(tmp_path, reap_timeout_s=PATIENCE_S)
    building = rig.use().begin(**rig.hold("build"))
    pid = await rig.reached("build")
    os.kill(pid, signal.SIGSTOP)
    for _ in range(3):
        building.cancel()
        await asyncio.wait({building}, timeout=0.1)
        assert not building.done()
    deaf.end()
    await asyncio.wait({building})
    assert building.cancelled()
    assert process(pid, "cmdline") == ""
    rig.look_that_nothing_is_left()


async def test_a_crash_of_the_library_is_told_with_its_signal(rig):
    building = rig.use().begin(**rig.hold("build"))
    os.kill(await rig.reached("build"), signal.SIGSEGV)
    with pytest.raises(BuildFailed) as failed:
        await building
    assert (failed.value.code, failed.value.permanent) == ("build.killed", False)
    assert "SIGSEGV" in str(failed.value)
    rig.look_that_nothing_is_left()


async def test_a_hang_that_holds_the_gil_is_ended_long_before_the_time_is_up(tmp_path):
    rig = Rig(tmp_path, still_s=4.0).use()
    set_faults(rig.faults, build="hang_gil")
    failed = await rig.fails(timeout_s=600.0)
    assert failed.code == "build.killed"
    assert "no sign of life and did no work" in str(failed)


async def test_a_hang_that_answers_but_does_no_work_is_ended_too(tmp_path):
    rig = Rig(tmp_path, idle_s=3.0, working_share=0.2).use()
    set_faults(rig.faults, build="hang")
    failed = await rig.fails(timeout_s=600.0)
    assert failed.code == "build.killed"
    assert "did no work" in str(failed)


async def test_a_builder_that_does_not_start_is_ended(tmp_path):
    sleeps = tmp_path / "sleeps"
    sleeps.write_text("#!/bin/sh\nexec sleep 600\n")
    sleeps.chmod(0o755)
    failed = await Rig(tmp_path, start_timeout_s=0.3).use(str(sleeps)).fails()
    assert failed.code == "build.killed"
    assert "did not start within 0.3 s" in str(failed)


# -- progress ------------------------------------------------------------------------------------------------------------


async def test_where_tensorrt_tells_its_steps_percent_and_time_left_follow_them(rig):
    rig.use(version="10.3.0")
    set_faults(rig.faults, build_s=4.0)
    await rig.build(timing_cache_path="")
    built = [progress for progress in rig.told if progress.phase == "build"]
    assert [progress.percent for progress in built] == sorted(progress.percent for progress in built)
    assert any(10 < progress.percent < 97 and progress.eta_s is not None for progress in built)


async def test_where_it_tells_none_the_time_of_the_former_build_counts(rig):
    rig.use(version="8.2")
    set_faults(rig.faults, build_s=2.5)
    await rig.build(timing_cache_path="")
    assert {progress.eta_s for progress in rig.told} == {None}
    rig.told.clear()
    await rig.build(timing_cache_path="")
    assert any(progress.eta_s is not None and progress.percent > 10 for progress in rig.told if progress.phase == "build")
