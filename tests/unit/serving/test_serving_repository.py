from __future__ import annotations

import hashlib
import os

import pytest

from edge_agent import errors
from edge_agent.serving.repository import digest, replaced, scan


def model(repository, name, *versions, file="model.onnx", config=""):
    for version in versions:
        folder = repository / name / version
        folder.mkdir(parents=True, exist_ok=True)
        (folder / file).write_bytes(b"model")
    (repository / name).mkdir(exist_ok=True)
    if config:
        (repository / name / "config.toml").write_text(config)


def found(*repositories):
    return {entry.name: entry for entry in scan(repositories)}


def numbers(entry):
    return [version.number for version in entry.versions]


def test_models_are_folders_with_numbered_versions_and_a_model_file(tmp_path):
    model(tmp_path, "face", "1")
    (tmp_path / "README").write_text("not a model")
    (tmp_path / ".git").mkdir()
    (entry,) = scan([tmp_path])
    (version,) = entry.versions
    assert (entry.name, entry.fault, version.number, version.platform) == ("face", "", 1, "onnxruntime_onnx")
    assert version.path == tmp_path / "face/1/model.onnx"


@pytest.mark.parametrize("folder", ["0", "01", "latest", "-1", "1.5", "²", "１", "9" * 30])
def test_a_folder_whose_name_is_no_version_number_is_passed_over(tmp_path, folder):
    model(tmp_path, "face", "3", folder)
    assert numbers(found(tmp_path)["face"]) == [3]


@pytest.mark.parametrize(
    ("policy", "served"),
    [
        ("", [10]),
        ("[version_policy.latest]\nnum_versions = 2\n", [9, 10]),
        ("[version_policy.all]\n", [1, 9, 10]),
        ("[version_policy.specific]\nversions = [1, 7]\n", [1]),
    ],
)
def test_the_policy_says_which_versions_are_served(tmp_path, policy, served):
    model(tmp_path, "face", "1", "9", "10", config=policy)
    assert numbers(found(tmp_path)["face"]) == served


def test_the_platform_is_that_of_the_file_that_is_there_and_a_configured_one_is_looked_for(tmp_path):
    model(tmp_path, "plan", "1", file="model.plan")
    (tmp_path / "plan/1/model.onnx").write_bytes(b"model")
    model(tmp_path, "onnx", "1", file="model.plan", config='platform = "onnxruntime_onnx"\n')
    (tmp_path / "onnx/1/model.onnx").write_bytes(b"model")
    model(tmp_path, "own", "1", file="net.onnx", config='platform = "onnxruntime_onnx"\ndefault_model_filename = "net.onnx"\n')
    entries = found(tmp_path)
    assert [entries[name].versions[0].path.name for name in ("plan", "onnx", "own")] == ["model.plan", "model.onnx", "net.onnx"]
    assert entries["plan"].versions[0].platform == "tensorrt_plan"


@pytest.mark.parametrize(
    ("files", "config", "platform", "path", "onnx"),
    [
        (("model.plan",), "", "tensorrt_plan", "model.plan", None),
        (("model.plan", "model.onnx"), "", "tensorrt_plan", "model.plan", "model.onnx"),
        (("model.onnx",), "", "onnxruntime_onnx", "model.onnx", None),
        (("model.onnx",), "[build]\n", "tensorrt_plan", "model.onnx", "model.onnx"),
        (("model.onnx",), 'platform = "tensorrt_plan"\n', "tensorrt_plan", "model.onnx", "model.onnx"),
        (("model.onnx",), 'platform = "onnxruntime_onnx"\n[build]\n', "onnxruntime_onnx", "model.onnx", None),
        (
            ("model.onnx",),
            '[[optimization.execution_accelerators.gpu_execution_accelerator]]\nname = "tensorrt"\n',
            "tensorrt_plan",
            "model.onnx",
            "model.onnx",
        ),
        (("net.plan", "model.onnx"), 'default_model_filename = "net.plan"\n', "tensorrt_plan", "net.plan", "model.onnx"),
        (("engine.trt",), 'default_model_filename = "engine.trt"\n', "tensorrt_plan", "engine.trt", None),
        (("net.onnx", "net.plan"), 'default_model_filename = "net.onnx"\n', "tensorrt_plan", "net.plan", "net.onnx"),
        (("net.onnx", "model.plan"), 'default_model_filename = "net.onnx"\n', "onnxruntime_onnx", "net.onnx", None),
        (("step.py", "model.onnx"), 'default_model_filename = "step.py"\n', "python", "step.py", None),
        (
            ("weights.bin",),
            'platform = "onnxruntime_onnx"\ndefault_model_filename = "weights.bin"\n',
            "onnxruntime_onnx",
            "weights.bin",
            None,
        ),
    ],
)
def test_tensorrt_has_a_plan_or_an_onnx_model_or_both(tmp_path, files, config, platform, path, onnx):
    for file in files:
        model(tmp_path, "net", "1", file=file, config=config)
    (version,) = found(tmp_path)["net"].versions
    assert (version.platform, version.path.name) == (platform, path)
    assert (version.onnx.name if version.onnx else None) == onnx
    assert (version.plan is not None) == (platform == "tensorrt_plan" and path != onnx)
    assert version.truth.name == (onnx or path)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda root: model(root, "bad"), "no version folder"),
        (lambda root: (root / "bad/1").mkdir(parents=True), "no version folder"),
        (lambda root: model(root, "bad", "1", config="max_batch_sise = 8\n"), "max_batch_sise"),
        (lambda root: model(root, "bad", "1", config="x = \n"), "is not TOML"),
        (lambda root: (model(root, "bad", "1"), (root / "bad/config.toml").mkdir()), "cannot be read"),
        (
            lambda root: (model(root, "bad", "1"), (root / "bad/config.pbtxt").write_text("name: bad'")),
            "config.pbtxt:1:10: ",
        ),
        (lambda root: model(root, "bad", "1", config='backend = "dali"'), "the backend 'dali' (DALI) is not served here"),
        (lambda root: model(root, "bad", "1", config='[decode]\nkind = "yolo"\nlabels = "no.txt"\n'), "no.txt"),
    ],
    ids=["empty", "no file", "unknown key", "no TOML", "a folder", "pbtxt", "refused", "labels"],
)
def test_a_model_that_cannot_be_served_says_why_and_its_neighbour_is_found(tmp_path, make, says):
    make(tmp_path)
    model(tmp_path, "good", "1")
    entries = found(tmp_path)
    assert says in entries["bad"].fault
    assert entries["good"].fault == ""


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_the_agent_may_not_read_is_a_fault_of_its_own(tmp_path):
    model(tmp_path, "bad", "1")
    model(tmp_path, "good", "1")
    (tmp_path / "bad").chmod(0)
    entries = found(tmp_path)
    (tmp_path / "bad").chmod(0o700)
    assert entries["bad"].fault
    assert entries["good"].fault == ""


def test_what_a_file_system_makes_by_itself_is_no_model(tmp_path):
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".git").mkdir()
    assert scan([tmp_path]) == []


def test_a_folder_whose_name_cannot_be_a_models_is_a_fault_of_its_own(tmp_path):
    model(tmp_path, "käse und brot", "1")
    assert "is not a model name" in found(tmp_path)["käse und brot"].fault


def test_links_may_stay_inside_and_never_lead_out(tmp_path):
    outside, repository = tmp_path / "outside", tmp_path / "repository"
    repository.mkdir()
    model(outside, "secret", "1")
    model(repository, "face", "1")
    os.symlink(str(outside / "secret"), str(repository / "stolen"))
    os.symlink(str(repository / "face"), str(repository / "alias"))
    os.symlink(str(outside / "secret/1"), str(repository / "face/2"))
    os.symlink("loop", str(repository / "loop"))
    entries = found(repository)
    assert set(entries) == {"face", "stolen", "alias"}
    assert "leads out of the repository" in entries["stolen"].fault
    assert entries["alias"].fault == ""
    assert numbers(entries["face"]) == numbers(entries["alias"]) == [1]  # 2 is a link that leads out


def test_a_model_that_two_repositories_have_is_taken_from_the_first(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    model(one, "face", "1")
    model(two, "face", "2")
    model(two, "cat", "1")
    entries = found(one, two)
    assert list(entries) == ["cat", "face"]
    assert numbers(entries["face"]) == [1]


@pytest.mark.parametrize("make", [lambda path: None, lambda path: path.write_text("")], ids=["absent", "a file"])
def test_a_repository_that_is_no_folder_is_a_fault_of_the_configuration(tmp_path, make):
    make(tmp_path / "models")
    with pytest.raises(errors.ConfigError, match="models.repository"):
        scan([tmp_path / "models"])


def test_the_digest_is_the_files_sha256(tmp_path):
    data = os.urandom((2 << 20) + 17)
    (tmp_path / "model.onnx").write_bytes(data)
    assert digest(tmp_path / "model.onnx") == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("served", "selected", "ready", "goes"),
    [
        (["1", "2"], ["2"], ["1", "2"], ["1"]),
        (["1", "2"], ["2"], ["1"], []),
        (["1", "2", "10"], ["2", "10"], ["1", "2"], ["1"]),
        (["2", "1"], ["1"], ["1", "2"], ["2"]),
        (["2", "1", "3"], ["1", "3"], ["1", "2"], []),
    ],
    ids=["replaced", "the new one is broken", "a newer one serves", "back to an older one", "only an older one serves"],
)
def test_a_version_goes_when_what_replaces_it_serves(served, selected, ready, goes):
    assert replaced(served, selected, ready) == goes
