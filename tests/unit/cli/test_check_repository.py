from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, Tuple

import pytest

from edge_agent.cli.main import main
from tests.unit.config import triton_configs

Check = Callable[[], Tuple[int, Dict[str, str]]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """The exit code, and what is said of each model; there is no configuration of the agent."""

    def check() -> Tuple[int, Dict[str, str]]:
        code = main(["-c", str(tmp_path / "none.toml"), "check", "--repository", str(tmp_path / "models")])
        lines = capsys.readouterr().out.splitlines()
        return code, dict(line.split(": ", 1) for line in lines)

    return check


def _models(tmp_path: Path, *names: str) -> Path:
    return triton_configs.write(tmp_path / "models", *names)


def test_a_repository_of_triton_is_served_as_it_is(tmp_path: Path, check: Check) -> None:
    _models(tmp_path, "detector", "pipeline", "preprocess", "words")
    code, said = check()
    assert code == 0
    assert sorted(said) == ["detector", "pipeline", "preprocess", "words"]
    assert said["pipeline"] == "serves unchanged"
    assert said["detector"].startswith("serves, ignoring input.images.format (")
    assert "instance_group[0].kind (ONNX Runtime and Python models run on the CPU; only TensorRT uses it)" in said["detector"]


def test_a_model_that_is_not_served_says_why_and_the_others_are_listed(tmp_path: Path, check: Check) -> None:
    _models(tmp_path, "chat", "tracker", "preprocess")
    code, said = check()
    assert code == 1
    assert said["chat"].startswith("no: the backend 'vllm'")
    assert said["tracker"].startswith("no: sequence_batching: ")
    assert said["preprocess"].startswith("serves, ignoring parameters.EXECUTION_ENV_PATH")


def test_every_fault_of_a_config_is_on_its_line(tmp_path: Path, check: Check) -> None:
    models = _models(tmp_path, "words")
    (models / "words/config.pbtxt").write_text("max_batch_sise: 1 instance_group { kind: KIND_TPU }")
    code, said = check()
    assert code == 1
    assert "max_batch_sise: unknown key (did you mean max_batch_size?)" in said["words"]
    assert "instance_group[0].kind: should be" in said["words"]


def test_an_ensemble_needs_its_models(tmp_path: Path, check: Check) -> None:
    models = _models(tmp_path, "pipeline", "preprocess", "detector")
    (models / "detector/config.pbtxt").write_text('backend: "pytorch"')
    assert check()[1]["pipeline"] == "no: the model detector, which it needs, is not served"
    (models / "detector").rename(tmp_path / "aside")
    assert check()[1]["pipeline"] == "no: there is no model detector, which it needs"
    (tmp_path / "aside").rename(models / "detector")
    (models / "detector/config.pbtxt").unlink()
    text = triton_configs.PIPELINE.replace("model_version: -1", "model_version: 7")
    (models / "pipeline/config.pbtxt").write_text(text)
    assert "version 7 of detector, which it needs, is not served" in check()[1]["pipeline"]


def test_an_ensemble_that_leads_back_to_itself_is_found(tmp_path: Path, check: Check) -> None:
    models = _models(tmp_path, "pipeline", "preprocess")
    (models / "pipeline/config.pbtxt").write_text(triton_configs.PIPELINE.replace('"detector"', '"pipeline"'))
    assert "no: its steps lead back to pipeline" in check()[1]["pipeline"]


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("model.pt", "export it to ONNX"),
        ("notes.txt", "no version folder"),
    ],
)
def test_a_folder_without_a_config_is_judged_by_its_files(tmp_path: Path, check: Check, file: str, says: str) -> None:
    version = tmp_path / "models/m/1"
    version.mkdir(parents=True)
    (version / file).write_bytes(b"")
    code, said = check()
    assert code == 1
    assert says in said["m"]


def test_a_folder_without_models_is_not_a_success(tmp_path: Path, check: Check) -> None:
    (tmp_path / "models").mkdir()
    assert check() == (1, {})


def test_a_folder_that_is_not_there_is_a_fault(check: Check) -> None:
    assert check() == (78, {})


def test_a_plan_and_what_a_plan_is_built_of_are_served(tmp_path: Path, check: Check) -> None:
    for name, file, config in (("alone", "model.plan", ""), ("made", "model.onnx", "[build]\nprecision = 'fp16'\n")):
        (tmp_path / "models" / name / "1").mkdir(parents=True)
        (tmp_path / "models" / name / "1" / file).write_bytes(b"")
        if config:
            (tmp_path / "models" / name / "config.toml").write_text(config)
    assert check() == (0, {"alone": "serves unchanged", "made": "serves unchanged"})
