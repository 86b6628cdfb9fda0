from __future__ import annotations

import pytest

from edge_agent.config import platforms


@pytest.mark.parametrize("name", ["", "tensorrt_plan", "onnxruntime_onnx", "python", "ensemble", "pytorch_libtorch"])
def test_platforms_of_triton_are_known(name: str) -> None:
    assert platforms.known_platform(name) == name


@pytest.mark.parametrize(
    ("name", "near"), [("onnxruntime_onx", "onnxruntime_onnx"), ("tensorrt", "tensorrt_plan"), ("zzz", "")]
)
def test_any_other_platform_is_a_slip(name: str, near: str) -> None:
    with pytest.raises(ValueError, match="should be one of") as caught:
        platforms.known_platform(name)
    assert ("did you mean %s?" % near in str(caught.value)) == bool(near)


@pytest.mark.parametrize(
    ("platform", "backend", "says"),
    [
        ("pytorch_libtorch", "", "the platform 'pytorch_libtorch' (PyTorch) is not served here: export it to ONNX"),
        ("", "pytorch", "the backend 'pytorch' (PyTorch)"),
        ("tensorflow_savedmodel", "", "tf2onnx"),
        ("tensorflow_graphdef", "tensorflow", "the backend 'tensorflow' (TensorFlow)"),
        ("", "openvino", "OpenVINO"),
        ("", "dali", "[image] of config.toml"),
        ("", "fil", "onnxmltools"),
        ("", "vllm", "leave it on its own server"),
        ("", "my_backend", "the backend 'my_backend' (a library of its own) is not served here: write it as a Python model"),
    ],
)
def test_a_foreign_framework_is_refused_by_name_with_the_way_out(platform: str, backend: str, says: str) -> None:
    assert platforms.known_backend(backend) == backend
    assert says in platforms.refusal(platform, backend)


@pytest.mark.parametrize(
    ("platform", "backend"), [("", ""), ("onnxruntime_onnx", "onnxruntime"), ("ensemble", ""), ("", "python")]
)
def test_what_is_served_is_not_refused(platform: str, backend: str) -> None:
    assert platforms.refusal(platform, backend) == ""


def test_a_file_of_a_foreign_framework_is_known_by_its_ending() -> None:
    assert "PyTorch" in platforms.foreign_file("model.pt")
    assert "TensorFlow" in platforms.foreign_file("model.savedmodel")
    assert platforms.foreign_file("model.onnx") == ""
    assert platforms.foreign_file("notes.txt") == ""


def test_every_backend_has_a_file_and_a_host() -> None:
    assert set(platforms.BACKENDS.values()) == set(platforms.FILES) == set(platforms.HOSTS)
