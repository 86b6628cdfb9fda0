"""Callers read no paths of the machine."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path

import numpy
import pytest

from edge_agent import errors
from edge_agent.serving.told import Told
from tests.serving_rig import add_model, running


@pytest.fixture
def told():
    return Told([Path("/srv/models"), Path("/srv/models/more")], Path("/var/lib/edge agent"))


@pytest.mark.parametrize(
    ("text", "reads"),
    [
        ("one/1: /var/lib/edge agent/plans/ab.plan cannot be read: gone", "one/1: plans/ab.plan cannot be read: gone"),
        ("[Errno 2] No such file: '/srv/models/a/1/model.onnx'", "[Errno 2] No such file: 'a/1/model.onnx'"),
        ("/srv/models/a/1/model.onnx is not like /srv/models/b/1/model.onnx", "a/1/model.onnx is not like b/1/model.onnx"),
        ("no /srv/models/x/1/model.plan in 3 runs and/or later: gone", "no x/1/model.plan in 3 runs and/or later: gone"),
        ("from:/srv/models/x/1/model.onnx", "from:x/1/model.onnx"),
        ("file:///srv/models/x/1/model.onnx", "file://x/1/model.onnx"),
        ("/srv/models/more/x/1/model.onnx", "x/1/model.onnx"),
        ("/srv/models, /srv/models/: nothing there", "models, models/: nothing there"),
        ("there is no room in /srv/models.", "there is no room in models."),
        ("/srv/models2/a and /mnt/srv/models/a are others", "/srv/models2/a and /mnt/srv/models/a are others"),
        ("model 'a' version 1: 3 deaths, 4/5 ok", "model 'a' version 1: 3 deaths, 4/5 ok"),
    ],
)
def test_paths_begin_at_the_folders_that_the_agent_was_given(told, text, reads):
    assert told.text(text) == reads


def test_what_came_with_a_load_request_lies_nowhere_for_callers(told):
    file = "edge-agent-model-x/one/1/model.onnx: bad"
    assert told.text("%s/%s" % (tempfile.gettempdir(), file)) == file


def test_a_folder_that_is_a_link_is_known_by_both_names(tmp_path):
    (tmp_path / "there").mkdir()
    os.symlink("there", str(tmp_path / "here"))
    told = Told([tmp_path / "here"], None)
    assert told.text("%s/a.onnx %s/b.onnx" % (tmp_path / "here", (tmp_path / "there").resolve())) == "a.onnx b.onnx"


def test_the_root_of_everything_is_no_folder_that_could_be_left_out():
    assert Told([Path("/")], None).text("1/2 of /etc/hosts") == "1/2 of /etc/hosts"


def test_an_error_that_must_be_told_otherwise_stays_whole_for_who_keeps_it(told):
    kept = errors.EngineLoadError("/srv/models/a/1/model.onnx: bad", code="plan.foreign")
    with pytest.raises(errors.EngineLoadError, match="^a/1/model.onnx: bad$") as caught, told:
        raise kept
    assert str(kept) == "/srv/models/a/1/model.onnx: bad"
    assert caught.value.args_by_name == {"code": "plan.foreign"}


def test_all_other_errors_are_the_same_ones(told):
    kept = errors.ModelNotReady("gone")
    with pytest.raises(errors.ModelNotReady) as caught, told:
        raise kept
    assert caught.value is kept


async def test_no_request_reads_where_a_model_lies_be_it_early_or_late(tmp_path):
    repository, state_dir = tmp_path / "models", tmp_path / "state"
    add_model(repository, "one", "add_one.onnx", "max_batch_size = 8\n")
    async with running(repository, state_dir=state_dir) as rig:
        (repository / "one" / "1" / "model.onnx").write_bytes(b"\0")
        await rig.kill_host("cpu")
        read, end = [], rig.clock.monotonic() + 20.0
        while not any("model.onnx" in text for text in read) or len(read) < 3:  # the first wait, later ones are refused at once
            assert rig.clock.monotonic() < end, read
            with pytest.raises(errors.EdgeAgentError) as caught:
                await rig.ask("one", numpy.ones((1, 4), numpy.float32))
            read.append(str(caught.value))
            await asyncio.sleep(0.02)
        with pytest.raises(errors.ModelNotReady) as caught:
            rig.serving.lookup("one", "1")
        told = [*read, str(caught.value), *(str(entry) for entry in rig.serving.index())]
        assert not [text for text in told if str(tmp_path) in text]
        assert "one/1/model.onnx" in str(rig.serving.index())
        assert str(repository) in str(rig.serving.status()), "operators have the whole text"
