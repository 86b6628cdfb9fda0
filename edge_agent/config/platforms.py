"""Platforms and backends of models: those served here, and the way out for the others."""

from __future__ import annotations

import difflib
from typing import Mapping, NamedTuple, Tuple

#: Triton's backends and the platforms that mean the same
BACKENDS: Mapping[str, str] = {"onnxruntime": "onnxruntime_onnx", "tensorrt": "tensorrt_plan", "python": "python"}
PLATFORMS: Tuple[str, ...] = ("tensorrt_plan", "onnxruntime_onnx", "python", "ensemble")
HOSTS: Mapping[str, str] = {"tensorrt_plan": "gpu", "onnxruntime_onnx": "cpu", "python": "python"}
FILES: Mapping[str, str] = {"onnxruntime_onnx": "model.onnx", "tensorrt_plan": "model.plan", "python": "model.py"}


class Foreign(NamedTuple):
    """A framework that the agent does not hold, and what to do with a model of it."""

    title: str
    cure: str


_TORCH = Foreign("PyTorch", "export it to ONNX (torch.onnx.export) as model.onnx, or call it from a Python model")
_TENSORFLOW = Foreign("TensorFlow", "convert it to ONNX (tf2onnx) as model.onnx, or call it from a Python model")
_OPENVINO = Foreign("OpenVINO", "export the model that it was made of to ONNX as model.onnx")
_DALI = Foreign("DALI", "do the preprocessing by [image] of config.toml, or in a Python model")
_TREES = Foreign("the FIL backend", "convert the trees to ONNX (onnxmltools) as model.onnx, or call them from a Python model")
_LANGUAGE = Foreign("a language model's server", "leave it on its own server: the agent serves no language models")
_CAFFE2 = Foreign("Caffe2", "export it to ONNX as model.onnx")
_LIBRARY = Foreign("a library of its own", "write it as a Python model (model.py), or export it to ONNX as model.onnx")

_FOREIGN: Mapping[str, Foreign] = {
    "pytorch": _TORCH,
    "pytorch_libtorch": _TORCH,
    "libtorch": _TORCH,
    "tensorflow": _TENSORFLOW,
    "tensorflow_graphdef": _TENSORFLOW,
    "tensorflow_savedmodel": _TENSORFLOW,
    "openvino": _OPENVINO,
    "dali": _DALI,
    "fil": _TREES,
    "vllm": _LANGUAGE,
    "tensorrtllm": _LANGUAGE,
    "caffe2_netdef": _CAFFE2,
    "custom": _LIBRARY,
}
_FOREIGN_ENDINGS: Mapping[str, Foreign] = {
    "pt": _TORCH,
    "pt2": _TORCH,
    "graphdef": _TENSORFLOW,
    "savedmodel": _TENSORFLOW,
    "xml": _OPENVINO,
    "dali": _DALI,
    "model": _TREES,
}


def known_platform(platform: str) -> str:
    """The platform; ValueError where nobody has one of that name."""
    if not platform or platform in PLATFORMS or platform in _FOREIGN:
        return platform
    raise ValueError("should be one of " + ", ".join(PLATFORMS) + _near(platform, PLATFORMS))


def known_backend(backend: str) -> str:
    """The backend; ValueError for what looks like a slip. Any other name is a library that somebody wrote."""
    near = "" if backend in BACKENDS or backend in _FOREIGN else _near(backend, tuple(BACKENDS))
    if near:
        raise ValueError("should be one of " + ", ".join(BACKENDS) + near)
    return backend


def refusal(platform: str, backend: str) -> str:
    """Why a model of that framework is not served, with the way out; empty where it is."""
    name = backend if backend and backend not in BACKENDS else platform
    if not name or name in PLATFORMS:
        return ""
    foreign = _FOREIGN.get(name, _LIBRARY)
    return "%s '%s' (%s) is not served here: %s" % (
        "the backend" if name == backend else "the platform",
        name,
        foreign.title,
        foreign.cure,
    )


def foreign_file(name: str) -> str:
    """The same for the name of a model's file."""
    foreign = _FOREIGN_ENDINGS.get(name.rpartition(".")[2])
    return "%s is a file of %s: %s" % (name, foreign.title, foreign.cure) if foreign is not None else ""


def _near(name: str, known: Tuple[str, ...]) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.75)
    return " (did you mean %s?)" % close[0] if close else ""
