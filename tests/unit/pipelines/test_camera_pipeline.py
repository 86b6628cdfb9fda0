from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.cameras.camera import Camera
from edge_agent.cameras.options import CameraOptions
from edge_agent.config.cameras import CameraSection
from edge_agent.pipelines.camera import CameraPipeline
from tests.doubles.engine_host import until
from tests.serving_rig import Rig, add_model

CLIP = str(Path(__file__).parents[2] / "data" / "demo-clip.mp4")
SIZE = (640, 480)
CONFIG = 'max_batch_size = 4\n[image]\n[decode]\nkind = "classification"\nmin_score = 0.0\n'

#: waits as long as a file is there
WAITS = """
import os, time

class Decoder:
    def __init__(self, config):
        pass

    def decode(self, outputs):
        while os.path.exists(%r):
            time.sleep(0.005)
        seen = [{"label": "cat", "score": 0.9, "box": [0, 0, 4, 4]}, {"label": "dog", "score": 0.2, "box": [0, 0, 8, 8]}]
        return [seen] * len(outputs["scores"])
"""


class Sink:
    """Keeps results; `full` and `error` are settable."""

    def __init__(self):
        self.results = []
        self.full = False
        self.errors = []

    def add_result_nowait(self, result):
        if self.errors:
            raise self.errors.pop()
        if self.full:
            return False
        self.results.append(result)
        return True


class Watch:
    """A camera's pipeline with everything below it real."""

    def __init__(self, repository, source=CLIP, **section):
        self.rig = Rig(repository)
        self.sink = Sink()
        self.told = []
        self.section = CameraSection.model_validate(
            {"name": "clip", "source": source, "model": "colour", "min_score": 0.0, **section}
        )
        self.camera = Camera(
            CameraOptions("clip", source, loop=True, reserve_bytes=1 << 20), self.rig.arena, self.rig.clock, lambda status: None
        )
        self.pipeline = CameraPipeline(
            self.section,
            self.camera,
            self.rig.serving,
            self.rig.arena,
            self.sink,
            self.rig.metrics,
            self.rig.clock,
            lambda camera, result, kept: self.told.append((camera, result)),
        )

    async def results(self, more=3, within_s=20.0):
        """Waits for so many results more."""
        wanted = len(self.told) + more
        await until(lambda: len(self.told) >= wanted, within_s)

    @property
    def state(self):
        status = self.pipeline.status()
        return status["state"], status["code"]

    def frames(self, kind):
        return self.rig.metrics._frames[("clip", kind)]


@contextlib.asynccontextmanager
async def watching(repository, **options):
    watch = Watch(repository, **options)
    await watch.rig.serving.start()
    await watch.pipeline.start()
    try:
        yield watch
    finally:
        await watch.pipeline.stop()
        await watch.pipeline.stop()
        await watch.rig.serving.stop()
        assert watch.rig.arena.status()["slots"] == 0


async def test_frames_become_results_with_their_moment_and_their_stages(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path, title="The clip") as watch:
        await watch.results()
        result = watch.sink.results[-1]
        assert (result.source, result.model, result.version) == ("camera/clip", "colour", "1")
        assert (result.width, result.height) == SIZE
        assert len(result.objects) == 3
        assert set(result.stages_us) == {"decode", "wait", "pre", "queue", "infer", "post"}
        assert 0 < result.latency_us < 10_000_000
        moments = [one.captured.monotonic_ns for one in watch.sink.results]
        assert moments == sorted(set(moments))
        assert watch.told[-1] == ("clip", watch.sink.results[-1])
        status = watch.pipeline.status()
        assert (status["name"], status["title"], status["model"], status["state"]) == ("clip", "The clip", "colour", "ok")
        assert status["fps_inferred"] > 0
        assert watch.frames("inferred") == len(watch.told)


async def test_max_fps_is_kept(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path, max_fps=5) as watch:
        await watch.results(1)
        before = len(watch.told)
        await asyncio.sleep(1.0)
        assert 2 <= len(watch.told) - before <= 6


async def test_results_that_nobody_wants_to_keep_are_told_and_not_kept(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path, keep="none") as watch:
        await watch.results()
        assert watch.sink.results == []


async def test_a_full_store_costs_results_and_says_so_and_the_camera_goes_on(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as watch:
        watch.sink.full = True
        await watch.results()
        assert watch.rig.metrics._dropped[("camera_results",)] >= 3


@pytest.mark.parametrize(
    ("options", "labels"),
    [({}, ["cat", "dog"]), ({"min_score": 0.5}, ["cat"]), ({"labels": ["dog"]}, ["dog"]), ({"labels": ["bird"]}, [])],
    ids=["all", "good ones", "one label", "another label"],
)
async def test_only_wanted_objects_are_kept_in_pixels_of_the_cameras_picture(tmp_path, options, labels):
    folder = add_model(
        tmp_path, "colour", "mean_colour.onnx", '[image]\nresize = "stretch"\n[decode]\nkind = "python:waits:Decoder"\n'
    )
    (folder / "waits.py").write_text(WAITS % str(tmp_path / "wait"))
    async with watching(tmp_path, **options) as watch:
        await watch.results(1)
        objects = watch.sink.results[0].objects
        assert [seen.label for seen in objects] == labels
        boxes = {"cat": (0.0, 0.0, 320.0, 180.0), "dog": (0.0, 0.0, 640.0, 360.0)}
        boxes = {"cat": (0.0, 0.0, SIZE[0] / 2, SIZE[1] / 2), "dog": (0.0, 0.0, *SIZE)}
        assert all(seen.box == pytest.approx(boxes[seen.label]) for seen in objects)


async def test_a_slow_model_means_skipped_frames_and_never_two_on_their_way(tmp_path):
    wait = tmp_path / "wait"
    folder = add_model(tmp_path, "colour", "mean_colour.onnx", '[image]\n[decode]\nkind = "python:waits:Decoder"\n')
    (folder / "waits.py").write_text(WAITS % str(wait))
    async with watching(tmp_path) as watch:
        await watch.results(1)
        wait.touch()
        await until(lambda: watch.rig.serving.in_flight == 1)
        await asyncio.sleep(0.3)
        assert watch.rig.serving.in_flight == 1
        skipped = watch.frames("skipped")
        wait.unlink()
        await watch.results(2)
        assert watch.frames("skipped") > skipped
        assert watch.pipeline.status()["skipped"] >= watch.frames("skipped")


# -- snapshots --------------------------------------------------------------------------------------------------------


async def test_a_snapshot_is_the_frame_that_was_inferred_last(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as watch:
        with pytest.raises(errors.SourceUnavailable, match="given no picture yet"):
            await watch.pipeline.snapshot(boxes=False)
        await watch.results()
        for boxes in (False, True):
            jpeg = await watch.pipeline.snapshot(boxes)
            assert jpeg[:3] == b"\xff\xd8\xff"


# -- when something is not there ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda repository: None,
        lambda repository: add_model(repository, "colour", "add_one.onnx"),
        lambda repository: add_model(repository, "colour", "mean_colour.onnx", "max_batch_sise = 1\n"),
    ],
    ids=["missing", "takes no pictures", "failed"],
)
async def test_a_camera_whose_model_is_not_there_says_so(tmp_path, make):
    make(tmp_path)
    async with watching(tmp_path) as watch:
        await until(lambda: watch.state == ("degraded", "camera.no_model"), 20)
        since = watch.pipeline.status()["since"]
        await until(lambda: watch.frames("failed") >= 2)
        assert watch.pipeline.status()["since"] == since
        assert watch.pipeline.status()["args"] == {"camera": "clip", "model": "colour"}
        assert watch.told == []


async def test_a_model_whose_host_starts_again_gets_frames_again(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as watch:
        await watch.results(1)
        for _ in range(2):
            os.kill(watch.rig.host_pid(), signal.SIGKILL)
            await until(lambda: not watch.rig.serving.is_ready("colour"))
            await watch.rig.until_ready("colour")
            await watch.results(2)
        assert watch.state == ("ok", "")


async def test_a_camera_child_that_is_killed_in_the_middle_of_a_frame_comes_back_with_newer_frames(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as watch:
        await watch.results(1)
        for delay_s in (0.0, 0.02, 0.05):
            await asyncio.sleep(delay_s)
            pid = watch.camera.pid
            os.kill(pid, signal.SIGKILL)
            await until(lambda pid=pid: watch.camera.pid not in (0, pid), 20)
            await watch.results(2)
        moments = [result.captured.monotonic_ns for result in watch.sink.results]
        assert moments == sorted(set(moments))
        assert (await watch.pipeline.snapshot(False))[:2] == b"\xff\xd8"


async def test_a_camera_that_gives_nothing_waits_and_its_state_is_its_own(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path, source=str(tmp_path / "no-such.mp4")) as watch:
        await until(lambda: watch.state == ("failed", "camera.unreachable"), 20)
        assert watch.told == []


async def test_an_error_that_nobody_foresaw_costs_one_frame_and_is_logged(tmp_path, caplog):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as watch:
        await watch.results(1)
        watch.sink.errors = [ValueError("odd")]
        await until(lambda: not watch.sink.errors)
        await watch.results(2)
        assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == ["task camera:clip failed"]
        assert watch.frames("failed") >= 1


# -- its end ----------------------------------------------------------------------------------------------------------


async def test_it_stops_before_its_start_and_at_any_moment_after_it(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    await Watch(tmp_path).pipeline.stop()
    for moment_s in (0.0, 0.15, 0.4):
        async with watching(tmp_path) as watch:
            await asyncio.sleep(moment_s)
        assert len(asyncio.all_tasks()) == 1
        assert watch.camera.pid == 0


async def test_it_stops_while_its_model_hangs(tmp_path):
    wait = tmp_path / "wait"
    folder = add_model(tmp_path, "colour", "mean_colour.onnx", '[image]\n[decode]\nkind = "python:waits:Decoder"\n')
    (folder / "waits.py").write_text(WAITS % str(wait))
    async with watching(tmp_path) as watch:
        await watch.results(1)
        wait.touch()
        await until(lambda: watch.rig.serving.in_flight == 1)
        await asyncio.wait_for(watch.pipeline.stop(), 8)
        assert watch.rig.serving.in_flight == 0
        assert watch.rig.arena.status()["slots"] == 1  # the host reads it still
