from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from edge_agent.config.batching import DynamicBatching, QueuePolicy
from edge_agent.config.image import DecodeConfig, ImageConfig
from edge_agent.config.tensors import TensorConfig
from edge_agent.config.versions import VersionPolicy
from edge_agent.domain.tensors import DataType


def test_tritons_defaults_are_ours() -> None:
    batching = DynamicBatching()
    assert (batching.preferred_batch_size, batching.max_queue_delay_microseconds) == ((), 0)
    assert QueuePolicy().model_dump() == {
        "timeout_action": "REJECT",
        "default_timeout_microseconds": 0,
        "allow_timeout_override": False,
        "max_queue_size": 0,
    }
    assert VersionPolicy().select([3, 1, 2]) == (3,)
    assert VersionPolicy().select([]) == ()


def test_a_picture_is_scaled_to_one_by_default() -> None:
    image = ImageConfig()
    assert (image.layout, image.resize, image.color, image.width, image.height) == ("auto", "letterbox", "RGB", "auto", "auto")
    assert image.scale == pytest.approx(0.00392156862745098, abs=1e-17)
    assert (image.mean, image.std) == ((0, 0, 0), (1, 1, 1))


@pytest.mark.parametrize(("said", "meant"), [(5, (5, 5, 5)), ([5], (5, 5, 5)), ([1, 2, 3], (1, 2, 3))])
def test_one_number_is_for_every_colour(said: Any, meant: Any) -> None:
    assert ImageConfig.model_validate({"mean": said}).mean == meant


@pytest.mark.parametrize("kind", ["yolo", "ssd", "centerface", "yunet", "classification", "none", "python:my_decoder:Decoder"])
def test_every_decoder_of_the_design_is_known(kind: str) -> None:
    assert DecodeConfig(kind=kind).kind == kind


@pytest.mark.parametrize("kind", ["", "YOLO", "python", "python:a", "python:a.b:C", "python:../a:C", "python:a:C\n"])
def test_no_other_decoder_is(kind: str) -> None:
    with pytest.raises(ValidationError, match="should be one of"):
        DecodeConfig(kind=kind)


@pytest.mark.parametrize("datatype", list(DataType))
def test_every_datatype_has_its_name_in_the_config(datatype: DataType) -> None:
    tensor = TensorConfig(name="x", data_type=datatype.config_name, dims=(3, -1))
    assert tensor.datatype is datatype
    assert tensor.spec(batched=False).shape == (3, -1)
    assert tensor.spec(batched=True).shape == (-1, 3, -1)
