"""`input` and `output` of a model, with Triton's names."""

from __future__ import annotations

from typing import Literal, Mapping, Optional, Tuple

from pydantic import AfterValidator, Field, field_validator
from typing_extensions import Annotated

from edge_agent.config.section import Int64, Section
from edge_agent.domain.tensors import DataType, TensorSpec

_DATATYPES: Mapping[str, DataType] = {datatype.config_name: datatype for datatype in DataType}


def _valid(name: str) -> str:
    if name not in _DATATYPES:
        raise ValueError("should be one of " + ", ".join(_DATATYPES))
    return name


#: in the order of their numbers in the protobuf form, from 0
DataTypeName = Literal[
    "TYPE_INVALID",
    "TYPE_BOOL",
    "TYPE_UINT8",
    "TYPE_UINT16",
    "TYPE_UINT32",
    "TYPE_UINT64",
    "TYPE_INT8",
    "TYPE_INT16",
    "TYPE_INT32",
    "TYPE_INT64",
    "TYPE_FP16",
    "TYPE_FP32",
    "TYPE_FP64",
    "TYPE_STRING",
    "TYPE_BF16",
]
ValidDataType = Annotated[DataTypeName, AfterValidator(_valid)]


class Reshape(Section):
    """The shape of a tensor in the model file, where it is not the one that requests have."""

    shape: Tuple[Int64, ...] = Field((), description="sizes; -1 is any size")


class TensorConfig(Section):
    """One input or output, without the batch dimension where the model batches."""

    name: str = Field(min_length=1, description="name of the tensor in the model file")
    data_type: ValidDataType = Field(description="TYPE_FP32 and so on; text is TYPE_STRING")
    dims: Tuple[Int64, ...] = Field(description="sizes; -1 is any size")
    reshape: Optional[Reshape] = Field(None, description="another shape that the model file has")
    is_shape_tensor: bool = Field(False, description="the tensor's values are a shape")
    is_non_linear_format_io: bool = Field(False, description="the engine has its own order of the bytes")

    @field_validator("dims")
    @classmethod
    def _sizes(cls, dims: Tuple[int, ...]) -> Tuple[int, ...]:
        if any(size < 1 and size != -1 for size in dims):
            raise ValueError("each size should be at least 1, or -1 for any")
        return dims

    @property
    def datatype(self) -> DataType:
        """The datatype as the wire names it."""
        return _DATATYPES[self.data_type]

    def spec(self, batched: bool) -> TensorSpec:
        """The tensor as requests see it: with a leading -1 when the model batches."""
        return TensorSpec(self.name, self.datatype, ((-1,) if batched else ()) + self.dims)


class InputConfig(TensorConfig):
    """One input."""

    format: Literal["FORMAT_NONE", "FORMAT_NHWC", "FORMAT_NCHW"] = Field(
        "FORMAT_NONE", description="order of a picture's sizes"
    )
    allow_ragged_batch: bool = Field(False, description="requests of different shapes share a batch")
    optional: bool = Field(False, description="a request may leave it out")


class OutputConfig(TensorConfig):
    """One output."""

    label_filename: str = Field("", description="file in the model's folder with the names of its classes, one a line")

    @field_validator("label_filename")
    @classmethod
    def _inside(cls, name: str) -> str:
        return inside(name)


def inside(name: str) -> str:
    """The name of a file in the model's folder; ValueError for one that leads out of it."""
    if name.startswith("/") or ".." in name.split("/") or "\0" in name:
        raise ValueError("should be a file in the model's folder")
    return name
