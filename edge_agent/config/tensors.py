"""`input` and `output` of a model, with Triton's names."""

from __future__ import annotations

from typing import Mapping, Tuple

from pydantic import Field, field_validator

from edge_agent.config.section import Section
from edge_agent.domain.tensors import DataType, TensorSpec

_DATATYPES: Mapping[str, DataType] = {datatype.config_name: datatype for datatype in DataType}


class TensorConfig(Section):
    """One input or output, without the batch dimension where the model batches."""

    name: str = Field(min_length=1, description="name of the tensor in the model file")
    data_type: str = Field(description="TYPE_FP32 and so on; text is TYPE_STRING")
    dims: Tuple[int, ...] = Field(description="sizes; -1 is any size")

    @field_validator("data_type")
    @classmethod
    def _known_type(cls, data_type: str) -> str:
        if data_type not in _DATATYPES:
            raise ValueError("should be one of " + ", ".join(_DATATYPES))
        return data_type

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
