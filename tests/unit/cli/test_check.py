from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import Callable, Tuple

import numpy
import pytest

from edge_agent.access.roles import Role
from edge_agent.access.tokens import TokenFile
from edge_agent.cli import check
from edge_agent.domain.clock import Clock
from tests.serving_rig import MODELS
from tests.unit.config.triton_configs import write

Check = Callable[[str], Tuple[int, str, str]]

BASE = '[agent]\nstate_dir = "state"\n[models]\nrepository = "models"\n'
CAMERA = '[[cameras]]\nname = "dock"\nmodel = "face"\nsource = "clip.mp4"\n'


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A repository of one model, and a clip."""
    version = tmp_path / "models" / "face" / "1"
    version.mkdir(parents=True)
    shutil.copy(str(MODELS / "add_one.onnx"), str(version / "model.onnx"))
    (version.parent / "config.toml").write_text("max_batch_size = 4\n")
    (tmp_path / "clip.mp4").write_bytes(b"x")
    return tmp_path


@pytest.fixture
def run(house: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    def run(text: str) -> Tuple[int, str, str]:
        file = house / "agent.toml"
        file.write_text(BASE + text)
        parser = argparse.ArgumentParser()
        check.add_arguments(parser)
        args = parser.parse_args([])
        args.config = file
        code = check.run(args)
        out, err = capsys.readouterr()
        return code, out, err

    return run


def test_a_good_configuration_is_one_line(run: Check, house: Path) -> None:
    code, out, err = run(CAMERA + "[mqtt]\n")
    assert (code, err) == (0, "")
    assert out == "%s: good: 1 model, 1 camera, MQTT at 127.0.0.1:1883, HTTP at 127.0.0.1:8000\n" % (house / "agent.toml")


def test_what_is_accepted_without_effect_is_a_note(run: Check, house: Path) -> None:
    (house / "models/face/config.toml").write_text("platform = 'onnxruntime_onnx'\n[build]\nprecision = 'fp16'\n")
    code, out, err = run(CAMERA + "tracker = true\n")
    assert code == 0
    assert out.startswith(str(house))
    assert "note: cameras.dock.tracker: tracking: not in this version" in err
    assert "note: models.face: not used by this version: build (the platform is another one" in err


def test_every_fault_of_the_file_is_printed_with_its_cure(run: Check) -> None:
    code, out, err = run("[http]\nprot = 1\nport = 'x'\n")
    assert (code, out) == (78, "")
    assert "http.prot: unknown key (did you mean port?)" in err
    assert "http.port: should be a whole number" in err
    assert err.endswith("2 faults\n")


def test_every_fault_around_the_file_is_printed_at_once(run: Check, house: Path) -> None:
    (house / "models/face/config.toml").write_text("max_batch_sise = 4\n")
    (house / "clip.mp4").unlink()
    (house / "empty").write_text("")
    code, out, err = run(
        CAMERA
        + "username = 'u'\npassword_file = 'none'\n"
        + "[[cameras]]\nname = 'b'\nmodel = 'car'\nsource = 'rtsp://10.0.0.5/'\n"
        + "[http]\nhost = '0.0.0.0'\ntls_cert_file = 'a'\ntls_key_file = 'b'\n"
        + "[mqtt]\nusername = 'u'\npassword_file = 'empty'\ntls = true\nca_file = 'c'\n"
        + "[vision]\npython = '/no/python'\n"
    )
    assert (code, out) == (78, "")
    for expected in (
        "max_batch_sise: unknown key (did you mean max_batch_size?)",
        "cameras.dock.source: %s is not there" % (house / "clip.mp4"),
        "cameras.dock.password_file: %s: the secret cannot be read" % (house / "none"),
        "cameras.b.model: no model is called car (the models here are face)",
        "http.tls_cert_file: ",
        "http.tls_key_file: ",
        "mqtt.password_file: %s: the secret is empty" % (house / "empty"),
        "mqtt.ca_file: ",
        "vision.python: /no/python cannot be run",
        "http.host: 0.0.0.0 is reached from other machines, and there is no token yet (run: edge-agent token add",
    ):
        assert expected in err
    assert err.endswith("10 faults\n")


def test_a_host_that_others_reach_is_good_with_a_token(run: Check, house: Path) -> None:
    assert run("[http]\nhost = '0.0.0.0'\n")[0] == 78
    TokenFile(house / "state/tokens.json", Clock()).add("me", Role.ADMIN)
    assert run("[http]\nhost = '0.0.0.0'\n")[0] == 0
    (house / "state/tokens.json").write_bytes(b"{")
    code, _, err = run("[http]\nhost = '0.0.0.0'\n")
    assert code == 78
    assert "is damaged" in err


def test_a_repository_that_is_not_there_is_a_fault(run: Check, house: Path) -> None:
    (house / "models").rename(house / "moved")
    code, _, err = run(CAMERA)
    assert code == 78
    assert str(house / "models") in err
    assert err.endswith("1 fault\n")


def test_explicit_mode_looks_at_what_it_loads(run: Check, house: Path) -> None:
    (house / "models/broken").mkdir()
    assert run("")[0] == 78
    assert run("control_mode = 'explicit'\nload = ['face']\n")[0] == 0
    code, _, err = run("control_mode = 'explicit'\nload = ['face', 'car']\n")
    assert code == 78
    assert "models.load: no model is called car" in err


def test_an_ensemble_without_its_models_is_a_fault(run: Check, house: Path) -> None:
    write(house / "models", "pipeline", "preprocess")
    code, _, err = run(CAMERA)
    assert code == 78
    assert "models.pipeline: there is no model detector, which it needs" in err
    assert err.endswith("1 fault\n")


def test_an_interpreter_that_runs_is_good(run: Check) -> None:
    assert run("[hosts.cpu]\npython = '%s'\n" % sys.executable)[0] == 0


def test_what_a_plan_is_built_with_or_judged_by_must_be_there(run: Check, house: Path) -> None:
    text = "[build]\nprecision = 'int8'\ncalibration = 'cache.bin'\n[accept]\ngolden = 'golden'\n"
    (house / "models/face/config.toml").write_text(text)
    code, _, err = run(CAMERA)
    assert code == 78
    assert "models.face.build.calibration: " in err
    assert "models.face.accept.golden: " in err
    (house / "models/face/golden").mkdir()
    (house / "models/face/cache.bin").write_bytes(b"")
    code, _, err = run(CAMERA)
    assert (code, "0 pairs of inputs.npz" in err) == (78, True), "it is empty"
    numpy.savez(str(house / "models/face/golden/inputs.npz"), x=numpy.zeros((1, 4)))
    numpy.savez(str(house / "models/face/golden/outputs.npz"), y=numpy.ones((1, 4)))
    assert run(CAMERA)[0] == 0


@pytest.mark.parametrize("data", [b"", b"this is no model", b"x"], ids=["empty", "text", "short"])
def test_a_model_file_that_is_none_is_a_fault(run: Check, house: Path, data: bytes) -> None:
    (house / "models/face/1/model.onnx").write_bytes(data)
    code, _, err = run(CAMERA)
    assert code == 78
    assert "models.face.1: " in err
    assert "is no whole ONNX model" in err


@pytest.mark.parametrize("where", ["gone.bin", "../../out.bin", "/out.bin"])
def test_weights_that_are_not_beside_their_model_are_a_fault(run: Check, house: Path, where: str) -> None:
    (house / "models/out.bin").write_bytes(b"1234")
    (house / "models/face/1/model.onnx").write_bytes(_with_external_data(where.encode()))
    code, _, err = run(CAMERA)
    assert code == 78
    assert "models.face.1: " in err
    assert where in err


def _with_external_data(where: bytes) -> bytes:
    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    tensor = field(13, field(1, b"location") + field(2, where)) + bytes([14 << 3, 1])
    return field(7, field(5, tensor))


def test_an_empty_plan_is_a_fault_where_the_model_needs_it(run: Check, house: Path) -> None:
    (house / "models/face/config.toml").write_text("platform = 'tensorrt_plan'\n")
    (house / "models/face/1/model.plan").write_bytes(b"")
    assert run(CAMERA)[0] == 0, "model.onnx is beside it"
    (house / "models/face/1/model.onnx").unlink()
    code, _, err = run(CAMERA)
    assert code == 78
    assert "model.plan is empty" in err


def test_a_golden_folder_that_is_a_circle_of_links_is_a_fault(run: Check, house: Path) -> None:
    (house / "models/face/golden").symlink_to("golden")
    (house / "models/face/config.toml").write_text("[accept]\ngolden = 'golden'\n")
    code, _, err = run(CAMERA)
    assert code == 78
    assert "models.face.accept.golden: " in err


def test_golden_files_outside_the_models_folder_are_a_fault(run: Check, house: Path) -> None:
    (house / "models/golden").mkdir()
    (house / "models/face/config.toml").write_text("[accept]\ngolden = '../golden'\n")
    code, _, err = run(CAMERA)
    assert code == 78
    assert "lies outside the model's folder" in err


def test_int8_without_calibration_or_quantized_layers_is_a_fault(run: Check, house: Path) -> None:
    (house / "models/face/config.toml").write_text("platform = 'tensorrt_plan'\n[build]\nprecision = 'int8'\n")
    code, _, err = run(CAMERA)
    assert code == 78
    assert "models.face.build.precision: int8 needs" in err


@pytest.mark.parametrize(
    "sizes", ["min=[2,4],opt=[1,4],max=[8,4]", "min=[1,4],opt=[9,4],max=[8,4]", "min=[1],opt=[1,4],max=[8,4]"]
)
def test_profiles_whose_sizes_do_not_rise_are_a_fault(run: Check, house: Path, sizes: str) -> None:
    (house / "models/face/config.toml").write_text("[build]\nprofiles = [{x = {%s}}]\n" % sizes)
    code, _, err = run(CAMERA)
    assert code == 78
    assert "models.face.build.profiles[0].x: " in err
