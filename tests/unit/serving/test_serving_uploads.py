from __future__ import annotations

import json
import tempfile

import numpy
import pytest

from edge_agent import errors
from edge_agent.serving.uploads import Uploads
from tests.serving_rig import MODELS, running

ROW = numpy.array([[1, 2, 3, 4]], numpy.float32)
CONFIG = json.dumps({"backend": "onnxruntime"})
FILE = (MODELS / "add_one.onnx").read_bytes()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Where the uploads lie; a function that lists them."""
    place = tmp_path / "uploads"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return lambda: sorted(path.name for path in place.glob("edge-agent-model-*"))


async def test_a_refused_upload_leaves_the_files_of_what_serves_and_none_of_its_own(tmp_path, folders):
    (tmp_path / "models").mkdir()
    async with running(tmp_path / "models", control_mode="explicit") as rig:
        await rig.serving.load_model("sent", CONFIG, {"1/model.onnx": FILE})
        (served,) = folders()
        for config, data in ((CONFIG, b"broken"), (json.dumps({"max_batch_sise": 1}), FILE)):
            with pytest.raises(errors.EdgeAgentError):
                await rig.serving.load_model("sent", config, {"1/model.onnx": data})
            assert folders() == [served]
        await rig.kill_host()  # the host that comes next reads the files again
        await rig.until_ready("sent")
        assert (await rig.ask("sent", ROW)).tolist() == [[2, 3, 4, 5]]


async def test_the_folder_of_an_upload_ends_with_what_serves_from_it(tmp_path, folders):
    (tmp_path / "models").mkdir()
    async with running(tmp_path / "models", control_mode="explicit") as rig:
        await rig.serving.load_model("sent", CONFIG, {"1/model.onnx": FILE})
        (first,) = folders()
        await rig.serving.load_model("sent", CONFIG, {"1/model.onnx": FILE})
        (second,) = folders()
        assert second != first
        await rig.serving.unload_model("sent")
        assert folders() == []
        with pytest.raises(errors.EngineLoadError):
            await rig.serving.load_model("other", CONFIG, {"1/model.onnx": b"broken"})
        assert folders() == []
        await rig.serving.load_model("sent", CONFIG, {"1/model.onnx": FILE})
        assert len(folders()) == 1
    assert folders() == []


@pytest.mark.parametrize("files", [{"1/" + "a" * 300: b""}, {"1/a": b"", "1/a/b": b""}], ids=["too long", "a file in the way"])
def test_files_that_cannot_be_written_are_a_failed_load(folders, files):
    uploads = Uploads()
    with pytest.raises(errors.EngineLoadError, match="failed to load 'sent', its files cannot be written"):
        uploads.put("sent", CONFIG, files)
    assert folders() == []
    assert "sent" not in uploads


@pytest.mark.parametrize(("name", "path"), [("../../evil", "1/model.onnx"), ("sent", "../../evil"), ("sent", "1/\0")])
def test_names_that_lead_elsewhere_are_refused(folders, name, path):
    with pytest.raises(errors.InvalidRequest):
        Uploads().put(name, CONFIG, {path: b"x"})
    assert folders() == []
