"""`[image]` and `[decode]` of a model: how a picture becomes the input, and outputs become results."""

from __future__ import annotations

import re
from typing import Any, Literal, Tuple, Union

from pydantic import AfterValidator, BeforeValidator, Field, field_validator
from typing_extensions import Annotated

from edge_agent.config.section import AutoInt, Score, Section

DECODERS = ("yolo", "ssd", "centerface", "yunet", "classification", "none")
_PYTHON_DECODER = re.compile(r"python:[A-Za-z_]\w*:[A-Za-z_]\w*\Z", re.ASCII)


def _per_channel(value: Any) -> Any:
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if any(isinstance(item, bool) or not isinstance(item, (int, float)) for item in values) or len(values) not in (1, 3):
        raise ValueError("should be one number, or three: one for each colour")
    return values * (3 // len(values))


def _no_zero(values: Tuple[float, ...]) -> Tuple[float, ...]:
    if 0 in values:
        raise ValueError("cannot divide by 0")
    return values


PerChannel = Annotated[Tuple[float, ...], BeforeValidator(_per_channel)]


def _side(value: Union[str, int]) -> Union[str, int]:
    if value == "auto" or int(value) <= 16_384:
        return value
    raise ValueError("should be at most 16384 pixels")


Side = Annotated[AutoInt, AfterValidator(_side)]


class ImageConfig(Section):
    """value = (pixel * scale - mean) / std, after resizing."""

    input: str = Field("", description="name of the input that takes the picture; empty: the model's only one")
    width: Side = Field("auto", description="pixels across; auto: the model's, a number where the model leaves it open")
    height: Side = Field("auto", description="pixels down; auto: the model's, a number where the model leaves it open")
    layout: Literal["auto", "NCHW", "NHWC"] = Field("auto", description="order of the input's dimensions; auto: by its shape")
    resize: Literal["letterbox", "stretch", "center_crop"] = Field(
        "letterbox", description="how a picture of another form is fitted"
    )
    color: Literal["RGB", "BGR", "GRAY"] = Field("RGB", description="order of the colours")
    scale: float = Field(1 / 255, description="a pixel (0 to 255) is multiplied by this first")
    mean: PerChannel = Field((0.0, 0.0, 0.0), description="then this is taken away, per colour")
    std: Annotated[PerChannel, AfterValidator(_no_zero)] = Field(
        (1.0, 1.0, 1.0), description="then it is divided by this, per colour"
    )


class DecodeConfig(Section):
    """What the outputs mean."""

    kind: str = Field("none", description="the outputs' form: " + ", ".join(DECODERS) + ", or python:MODULE:CLASS")
    labels: str = Field("", description="file beside config.toml with the names of the classes, one a line")
    min_score: Score = Field(0.25, description="results below this score are dropped")
    iou: Score = Field(0.45, description="boxes of one class that overlap more than this count as one")
    max_objects: int = Field(100, ge=1, le=300, description="most results of one picture")

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        if kind in DECODERS or _PYTHON_DECODER.match(kind):
            return kind
        raise ValueError("should be one of %s, or python:MODULE:CLASS" % ", ".join(DECODERS))

    @field_validator("labels")
    @classmethod
    def _inside(cls, labels: str) -> str:
        if labels.startswith("/") or ".." in labels.split("/") or "\0" in labels:
            raise ValueError("should be a file in the model's folder")
        return labels
