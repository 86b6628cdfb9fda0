from __future__ import annotations

import pytest

from edge_agent import errors
from edge_agent.config.image import ImageConfig
from edge_agent.domain.tensors import DataType, TensorSpec
from edge_agent.serving.picture import picture_input, resolve


def spec(*shape, name="image", datatype=DataType.FP32):
    return TensorSpec(name, datatype, shape)


def image(**fields):
    return ImageConfig.model_validate(fields)


@pytest.mark.parametrize(
    ("shape", "fields", "layout", "size"),
    [
        ((-1, 3, 480, 640), {}, "NCHW", (640, 480)),
        ((-1, 480, 640, 3), {}, "NHWC", (640, 480)),
        ((3, 480, 640), {}, "NCHW", (640, 480)),
        ((480, 640, 3), {}, "NHWC", (640, 480)),
        ((1, 1, 28, 28), {"color": "GRAY"}, "NCHW", (28, 28)),
        ((1, 28, 28, 1), {"color": "GRAY"}, "NHWC", (28, 28)),
        ((1, 3, 224, 3), {}, "NCHW", (3, 224)),
        ((1, 3, 3, 3), {"layout": "NHWC"}, "NHWC", (3, 3)),
        ((-1, 3, -1, -1), {"width": 320, "height": 256}, "NCHW", (320, 256)),
        ((-1, -1, -1, 3), {"width": 320, "height": 256}, "NHWC", (320, 256)),
        ((-1, 3, 480, 640), {"width": 640, "height": 480}, "NCHW", (640, 480)),
    ],
)
def test_size_and_layout_come_from_the_models_input(shape, fields, layout, size):
    resolved = resolve(image(**fields), [spec(*shape)])
    assert (resolved.layout, (resolved.width, resolved.height)) == (layout, size)
    assert resolved.nbytes == 4 * resolved.width * resolved.height * resolved.channels


def test_everything_else_comes_from_the_table():
    table = image(resize="stretch", color="BGR", scale=1.0, mean=[1, 2, 3], std=2)
    resolved = resolve(table, [spec(1, 3, 8, 8, datatype=DataType.UINT8)])
    assert (resolved.resize, resolved.color, resolved.scale) == ("stretch", "BGR", 1.0)
    assert (resolved.mean, resolved.std, resolved.datatype) == ((1.0, 2.0, 3.0), (2.0, 2.0, 2.0), "UINT8")


@pytest.mark.parametrize(
    ("shape", "fields", "datatype", "says"),
    [
        ((-1, 3, -1, 640), {"width": 640}, "FP32", "the model takes any height"),
        ((-1, 3, 480, 640), {"width": 320}, "FP32", "320 is asked, the model takes 640"),
        ((-1, 3, 480, 640), {"color": "GRAY"}, "FP32", "GRAY does not fit 3 channels"),
        ((-1, 4, 480, 640), {"layout": "NCHW"}, "FP32", "RGB does not fit 4 channels"),
        ((-1, 1000), {}, "FP32", "not a picture"),
        ((1,), {}, "FP32", "not a picture"),
        ((-1, 3, 480, 640), {}, "INT64", "not a picture"),
        ((-1, 3, 480, 640), {"input": "photo"}, "FP32", "'photo' is none of the model's inputs: image"),
    ],
)
def test_what_does_not_fit_the_model_is_a_fault_of_its_config(shape, fields, datatype, says):
    with pytest.raises(errors.ConfigError) as caught:
        resolve(image(**fields), [spec(*shape, datatype=DataType(datatype))])
    assert says in str(caught.value)


def test_a_model_with_several_inputs_must_say_which_takes_the_picture():
    inputs = [spec(1, 3, 8, 8, name="left"), spec(1, 3, 8, 8, name="right")]
    assert picture_input(image(input="right"), inputs).name == "right"
    with pytest.raises(errors.ConfigError, match="left, right"):
        picture_input(image(), inputs)
