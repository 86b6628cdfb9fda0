"""Which input takes a picture, and how it is prepared for it."""

from __future__ import annotations

from typing import Sequence, Tuple, Union

from edge_agent import errors
from edge_agent.config.image import ImageConfig
from edge_agent.domain.frames import Preprocess
from edge_agent.domain.tensors import TensorSpec

_PIXELS = ("FP32", "FP16", "UINT8")


def picture_input(image: ImageConfig, inputs: Sequence[TensorSpec]) -> TensorSpec:
    """The input that takes the picture: the one named, or the model's only one."""
    for spec in inputs:
        if spec.name == image.input or (not image.input and len(inputs) == 1):
            return spec
    names = ", ".join(spec.name for spec in inputs)
    raise errors.ConfigError(
        [("image.input", "'%s' is none of the model's inputs: %s" % (image.input, names), "name one of them")]
    )


def resolve(image: ImageConfig, inputs: Sequence[TensorSpec]) -> Preprocess:
    """The `[image]` table with every "auto" worked out from the model's input; ConfigError where that cannot be."""
    spec = picture_input(image, inputs)
    dims = spec.shape[-3:]
    if spec.datatype.value not in _PIXELS or len(dims) != 3:
        text = "input '%s' is %s %s, not a picture" % (spec.name, spec.datatype.value, list(spec.shape))
        raise errors.ConfigError([("image.input", text, "a picture's input has three dimensions of FP32, FP16 or UINT8")])
    layout = _layout(image, dims)
    channels, height, width = dims if layout == "NCHW" else (dims[2], dims[0], dims[1])
    if channels not in (-1, 1 if image.color == "GRAY" else 3):
        raise errors.ConfigError(
            [("image.color", "%s does not fit %d channels" % (image.color, channels), "use GRAY for one, RGB or BGR for three")]
        )
    return Preprocess(
        width=_size("width", image.width, width),
        height=_size("height", image.height, height),
        layout=layout,
        resize=image.resize,
        color=image.color,
        datatype=spec.datatype.value,
        scale=image.scale,
        mean=tuple(image.mean),
        std=tuple(image.std),
    )


def _layout(image: ImageConfig, dims: Tuple[int, ...]) -> str:
    if image.layout != "auto":
        return image.layout
    return "NHWC" if dims[2] in (1, 3) and dims[0] not in (1, 3) else "NCHW"


def _size(key: str, asked: Union[str, int], model: int) -> int:
    if asked == "auto":
        if model > 0:
            return model
        raise errors.ConfigError([("image." + key, "the model takes any %s" % key, "set image.%s to a number of pixels" % key)])
    if model > 0 and int(asked) != model:
        raise errors.ConfigError([("image." + key, "%s is asked, the model takes %d" % (asked, model), "leave it out")])
    return int(asked)
