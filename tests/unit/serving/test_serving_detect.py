from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.cameras.images import ImageChild
from edge_agent.domain.frames import Geometry
from edge_agent.domain.results import Detection
from edge_agent.serving.detect import Detector, to_source
from tests.doubles.engine_host import until
from tests.serving_rig import Rig, add_model

DATA = Path(__file__).parents[2] / "data"
ASTRONAUT = (DATA / "astronaut.jpg").read_bytes()
PICTURES = 'max_batch_size = 4\n[image]\nresize = "stretch"\n[decode]\nkind = "%s"\nmin_score = 0.0\n'
CONFIG = PICTURES % "classification"

#: waits as long as the file `wait` is there
WAITS = """
import os, time

class Decoder:
    def __init__(self, config):
        pass

    def decode(self, outputs):
        while os.path.exists(%r):
            time.sleep(0.005)
        return [[{"label": "seen", "score": 1.0, "box": [0, 0, 8, 8]}] for _ in outputs["scores"]]
"""


class Sink:
    """Keeps results as the store does, or fails as it does."""

    def __init__(self):
        self.results = []
        self.error = None

    async def add_result(self, result):
        if self.error is not None:
            raise self.error
        self.results.append(result)
        return "uid/%d" % len(self.results)


class Eyes:
    """A detector with everything below it real."""

    def __init__(self, rig):
        self.rig = rig
        self.sink = Sink()
        self.images = ImageChild(rig.arena, rig.clock)
        self.detector = Detector(rig.serving, self.images, self.sink, rig.clock)

    async def detect(self, name="colour", image=ASTRONAUT, **options):
        return await asyncio.wait_for(asyncio.ensure_future(self.detector.detect(name, image, **options)), 20)

    async def kill_image_child(self):
        pid = self.images.pid
        os.kill(pid, signal.SIGKILL)
        await until(lambda: self.images.pid != pid, 20)

    @property
    def slots(self):
        return self.rig.arena.status()["slots"]


@contextlib.asynccontextmanager
async def watching(repository):
    eyes = Eyes(Rig(repository))
    await eyes.rig.serving.start()
    await eyes.detector.start()
    try:
        await asyncio.wait_for(eyes.rig.serving.settled(), 30)
        yield eyes
        await until(lambda: eyes.slots == 0)
    finally:
        await eyes.rig.serving.stop()
        await eyes.detector.stop()
        await eyes.detector.stop()


def add_waiting(repository, name="waiting"):
    """A model of pictures that waits while the answered file is there."""
    wait = repository / (name + ".wait")
    folder = add_model(repository, name, "mean_colour.onnx", PICTURES % "python:waits:Decoder")
    (folder / "waits.py").write_text(WAITS % str(wait))
    return wait


async def test_a_picture_is_answered_with_what_the_model_sees_and_how_long_each_stage_took(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as eyes:
        answer = await eyes.detect(request_id="r1")
        assert (answer.id, answer.model, answer.version, answer.width, answer.height) == ("r1", "colour", "1", 512, 512)
        assert answer.classification
        assert set(answer.stages_us) == {"decode", "pre", "queue", "infer", "post", "total"}
        assert answer.stages_us["total"] >= answer.stages_us["decode"] + answer.stages_us["pre"]
        body = answer.as_json()
        assert set(body) == {"id", "model", "version", "width", "height", "classes", "stages_us"}
        assert all(set(one) == {"label", "score"} for one in body["classes"])
        assert eyes.sink.results == []
        assert (await eyes.detect()).id != (await eyes.detect()).id


async def test_low_scores_are_left_out_when_that_is_asked(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as eyes:
        scores = sorted(seen.score for seen in (await eyes.detect()).objects)
        assert len((await eyes.detect(min_score=scores[0] + 1e-4)).objects) == len(scores) - 1
        assert (await eyes.detect(min_score=1.0)).objects == ()


async def test_boxes_come_back_in_pixels_of_the_sent_picture(tmp_path):
    add_waiting(tmp_path)
    async with watching(tmp_path) as eyes:
        answer = await eyes.detect("waiting")
        assert answer.as_json()["objects"] == [{"label": "seen", "score": 1.0, "box": [0.0, 0.0, 512.0, 512.0]}]


def test_boxes_are_mapped_and_classes_of_the_whole_picture_stay():
    geometry = Geometry(width=200, height=100, scale_x=0.5, scale_y=0.5, pad_x=10, pad_y=0)
    box, whole = to_source((Detection("a", 0.5, (10, 0, 60, 900)), Detection("b", 0.5)), geometry)
    assert box.box == (0.0, 0.0, 100.0, 100.0)
    assert whole.box is None


async def test_a_kept_result_says_who_asked_and_its_uid_is_answered(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as eyes:
        answer = await eyes.detect(source="http/dock", request_id="r1", keep=True)
        assert answer.as_json()["uid"] == "uid/1"
        (result,) = eyes.sink.results
        assert (result.source, result.model, result.width, result.request_id) == ("http/dock", "colour", 512, "r1")
        assert result.objects == answer.objects
        assert result.latency_us == answer.stages_us["total"]
        eyes.sink.error = errors.StoreFull("no room")
        with pytest.raises(errors.StoreFull):
            await eyes.detect(source="http/dock", keep=True)


@pytest.mark.parametrize(
    ("name", "image", "kind"),
    [
        ("absent", ASTRONAUT, errors.ModelNotFound),
        ("plain", ASTRONAUT, errors.InvalidRequest),
        ("undecoded", ASTRONAUT, errors.InvalidRequest),
        ("colour", b"not a picture", errors.InvalidRequest),
        ("colour", ASTRONAUT[:1000], errors.InvalidRequest),
        ("colour", b"", errors.InvalidRequest),
    ],
    ids=["no model", "no pictures", "no decoder", "no picture", "cut off", "empty"],
)
async def test_what_cannot_be_answered_is_refused_and_holds_nothing(tmp_path, name, image, kind):
    add_model(tmp_path, "plain", "add_one.onnx")
    add_model(tmp_path, "undecoded", "mean_colour.onnx", "[image]\n")
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as eyes:
        with pytest.raises(kind):
            await eyes.detect(name, image)
        await until(lambda: eyes.slots == 0)


async def test_a_deadline_is_kept_while_the_picture_waits_for_its_model(tmp_path):
    wait = add_waiting(tmp_path)
    async with watching(tmp_path) as eyes:
        with pytest.raises(errors.DeadlineExceeded):
            await eyes.detect("waiting", deadline=eyes.rig.clock.monotonic() - 1)
        await eyes.detect("waiting")
        wait.touch()
        batcher = eyes.rig.serving.lookup("waiting").batcher
        blocking = []
        for held in (1, 2):
            blocking.append(asyncio.ensure_future(eyes.detect("waiting")))
            await until(lambda held=held: batcher.in_flight == held)
        with pytest.raises(errors.DeadlineExceeded):
            await eyes.detect("waiting", deadline=eyes.rig.clock.monotonic() + 0.3)
        wait.unlink()
        await asyncio.gather(*blocking)


async def test_a_caller_that_leaves_while_its_picture_is_prepared_leaves_nothing_behind(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as eyes:
        await eyes.detect()
        for turn in range(40):
            task = asyncio.ensure_future(eyes.detector.detect("colour", ASTRONAUT))
            await asyncio.sleep(0.0005 * (turn % 14))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        await until(lambda: eyes.slots == 0)
        assert len((await eyes.detect()).objects) == 3


async def test_a_caller_that_leaves_while_its_picture_is_inferred_gives_its_slot_back_with_the_answer(tmp_path):
    wait = add_waiting(tmp_path)
    async with watching(tmp_path) as eyes:
        await eyes.detect("waiting")
        wait.touch()
        task = asyncio.ensure_future(eyes.detector.detect("waiting", ASTRONAUT))
        await until(lambda: eyes.rig.serving.in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert eyes.slots == 1  # the host reads it still
        wait.unlink()
        await until(lambda: eyes.slots == 0)
        assert eyes.rig.journal.requests[-1].status == "request.cancelled"


async def test_pictures_in_flight_when_a_child_is_killed_are_answered(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as eyes:
        await eyes.detect()
        for kill in (eyes.kill_image_child, eyes.rig.kill_host):
            asked = [asyncio.ensure_future(eyes.detect()) for _ in range(6)]
            await asyncio.sleep(0.01)
            await kill()
            answers = await asyncio.gather(*asked, return_exceptions=True)
            for answer in answers:
                assert isinstance(answer, errors.UnavailableError) or len(answer.objects) == 3, answer
            await eyes.rig.until_ready("colour")
            assert len((await eyes.detect()).objects) == 3


async def test_a_stopped_detector_takes_no_pictures(tmp_path):
    add_model(tmp_path, "colour", "mean_colour.onnx", CONFIG)
    async with watching(tmp_path) as eyes:
        await eyes.detector.stop()
        with pytest.raises(errors.UnavailableError):
            await eyes.detect()
