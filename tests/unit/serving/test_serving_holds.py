from __future__ import annotations

import asyncio

import pytest

from edge_agent import errors
from edge_agent.serving.holds import FILE_NAME, Holds
from tests.serving_rig import Rig, add_model, running


def test_a_hold_that_cannot_be_saved_does_not_hold_and_a_release_does_not_release(tmp_path):
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    holds = Holds(state_dir)
    holds.hold("one")
    (state_dir / FILE_NAME).unlink()
    state_dir.rmdir()
    state_dir.write_text("no folder")
    with pytest.raises(OSError, match=FILE_NAME):
        holds.hold("two")
    with pytest.raises(OSError, match=FILE_NAME):
        holds.release("one")
    assert "two" not in holds
    assert "one" in holds


async def test_a_load_by_request_does_not_end_a_hold_and_says_what_does(tmp_path):
    add_model(tmp_path / "models", "add", "add_one.onnx")
    async with running(tmp_path / "models", control_mode="explicit", state_dir=tmp_path) as rig:
        await rig.serving.hold("add")
        with pytest.raises(errors.ControlRefused, match="held down by an operator: edge-agent models load add"):
            await rig.serving.load_model("add")
        with pytest.raises(errors.ModelNotFound):
            rig.serving.lookup("add")
        await rig.serving.release("add")
        assert rig.serving.is_ready("add")


async def test_a_model_that_is_held_while_its_loading_waits_does_not_come_up(tmp_path):
    add_model(tmp_path, "add", "add_one.onnx")
    rig = Rig(tmp_path)
    await rig.serving.start()
    try:
        rig.serving._control._holds.hold("add")  # the load task has not run yet
        await asyncio.wait_for(rig.serving.settled(), 20)
        assert rig.serving.versions("add") == []
    finally:
        await rig.serving.stop()
