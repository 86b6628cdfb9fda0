"""Bodies of index, load and unload."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from edge_agent.errors import EngineLoadError, InvalidRequest
from edge_agent.kserve import control
from edge_agent.kserve.control import LoadBody


def _load(parameters: Any) -> LoadBody:
    return control.parse_load(json.dumps({"parameters": parameters}).encode(), "demo")


@pytest.mark.parametrize("body", [b"", b"{}", b'{"parameters": {}}', b'{"parameters": null}'])
def test_a_body_that_says_nothing_asks_for_what_is_usual(body: bytes) -> None:
    assert control.parse_load(body, "demo") == LoadBody()
    assert control.parse_unload(body) is False
    assert control.parse_index(body) is False


def test_files_come_decoded_by_their_path() -> None:
    data = bytes(range(256))
    encoded = base64.b64encode(data).decode()
    found = _load({"config": "{}", "file:1/model.onnx": encoded, "file:2/more/model.onnx": ""})
    assert found == LoadBody("{}", {"1/model.onnx": data, "2/more/model.onnx": b""})


@pytest.mark.parametrize("path", ["", "model.onnx", "/1/model.onnx", "1/", "1//a", "../a", "1/../a", "1/./a", "1/a\0"])
def test_a_path_that_is_no_file_within_a_version_is_refused(path: str) -> None:
    with pytest.raises(InvalidRequest, match="within a version"):
        _load({"config": "{}", "file:" + path: ""})


@pytest.mark.parametrize("content", [7, None, "a", "AAA", "AA=A", "AA AA", "\u00e9", "AAAA\n"])
def test_content_that_is_no_base64_is_refused_by_its_name(content: Any) -> None:
    with pytest.raises(InvalidRequest, match="file:1/model.onnx"):
        _load({"config": "{}", "file:1/model.onnx": content})


def test_files_need_a_configuration_and_other_parameters_are_a_load_that_failed() -> None:
    with pytest.raises(InvalidRequest, match="'config'"):
        _load({"file:1/model.onnx": ""})
    with pytest.raises(EngineLoadError, match="failed to load 'demo', unrecognized load parameter 'sort'"):
        _load({"sort": "x"})


@pytest.mark.parametrize("value", [1, "true", [], {}])
def test_flags_are_bools(value: Any) -> None:
    with pytest.raises(InvalidRequest, match="'ready'"):
        control.parse_index(json.dumps({"ready": value}).encode())
    with pytest.raises(InvalidRequest, match="unload_dependents"):
        control.parse_unload(json.dumps({"parameters": {"unload_dependents": value}}).encode())
