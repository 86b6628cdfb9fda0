"""Counts of a model go on when it is loaded anew, and end when it leaves the repository."""

from __future__ import annotations

import shutil

import numpy

from tests.doubles.engine_host import until
from tests.serving_rig import add_model, running

ROW = numpy.ones((1, 4), numpy.float32)


async def test_statistics_do_not_fall_when_a_model_is_loaded_anew(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path, control_mode="explicit", load=["*"]) as rig:
        for count in (1, 2, 3):
            await rig.ask("add", ROW)
            (entry,) = rig.serving.statistics("add")
            assert (entry["inference_count"], entry["execution_count"]) == (count, count)
            if count == 2:
                await rig.serving.unload_model("add")
            await rig.serving.load_model("add")


async def test_metrics_of_a_model_that_is_in_no_repository_any_more_show_no_more(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx", "max_batch_size = 8\n")
    async with running(tmp_path, control_mode="poll", poll_interval_s=1) as rig:
        assert (await rig.ask("add", ROW)).tolist() == [[2, 2, 2, 2]]
        assert ("add", "1") in rig.metrics._models
        shutil.rmtree(tmp_path / "add")
        await until(lambda: rig.serving.names() == [])
        assert ("add", "1") not in rig.metrics._models
