"""`sequence_batching`, `batch_input` and `batch_output` of a model: read, so that a mistake in them is found, and refused."""

from __future__ import annotations

from typing import Literal, Optional, Tuple

from pydantic import Field

from edge_agent.config.section import Int32, Int64, Section, Uint64
from edge_agent.config.tensors import DataTypeName


class Control(Section):
    """A signal that the batcher sends to the model."""

    kind: Literal["CONTROL_SEQUENCE_START", "CONTROL_SEQUENCE_READY", "CONTROL_SEQUENCE_END", "CONTROL_SEQUENCE_CORRID"] = (
        Field("CONTROL_SEQUENCE_START", description="what is signalled")
    )
    int32_false_true: Tuple[Int32, ...] = Field((), description="the values of no and yes")
    fp32_false_true: Tuple[float, ...] = Field((), description="the values of no and yes")
    bool_false_true: Tuple[bool, ...] = Field((), description="the values of no and yes")
    data_type: DataTypeName = Field("TYPE_INVALID", description="datatype of the correlation id")


class ControlInput(Section):
    """The input that signals come by."""

    name: str = Field("", description="name of the input")
    control: Tuple[Control, ...] = Field((), description="the signals")


class InitialState(Section):
    """What a sequence begins with."""

    name: str = Field("", description="name of the state")
    data_type: DataTypeName = Field("TYPE_INVALID", description="datatype")
    dims: Tuple[Int64, ...] = Field((), description="sizes")
    zero_data: Optional[bool] = Field(None, description="zeros")
    data_file: Optional[str] = Field(None, description="a file in the folder initial_state")


class SequenceState(Section):
    """A tensor that goes from one request of a sequence to the next."""

    input_name: str = Field("", description="the input that takes it")
    output_name: str = Field("", description="the output that gives it")
    data_type: DataTypeName = Field("TYPE_INVALID", description="datatype")
    dims: Tuple[Int64, ...] = Field((), description="sizes")
    initial_state: Tuple[InitialState, ...] = Field((), description="what a sequence begins with")
    use_same_buffer_for_input_output: bool = Field(False, description="one buffer for both")
    use_growable_memory: bool = Field(False, description="a buffer that grows")


class Direct(Section):
    """A slot of its own for each sequence."""

    max_queue_delay_microseconds: Uint64 = Field(0, description="longest wait for company")
    minimum_slot_utilization: float = Field(0.0, description="part of the slots that is worth a run")


class Oldest(Section):
    """Batches over candidate sequences."""

    max_candidate_sequences: Int32 = Field(0, description="sequences that are looked at")
    preferred_batch_size: Tuple[Int32, ...] = Field((), description="sizes that are sent without waiting for more")
    max_queue_delay_microseconds: Uint64 = Field(0, description="longest wait for company")
    preserve_ordering: bool = Field(False, description="answers leave in the order of the requests")


class SequenceBatching(Section):
    """Requests that belong together go to one instance."""

    max_sequence_idle_microseconds: Uint64 = Field(1_000_000, description="a sequence that is silent for longer has ended")
    control_input: Tuple[ControlInput, ...] = Field((), description="inputs that signals come by")
    state: Tuple[SequenceState, ...] = Field((), description="tensors that go from request to request")
    iterative_sequence: bool = Field(False, description="a request is run again until it is done")
    direct: Optional[Direct] = Field(None, description="a slot for each sequence")
    oldest: Optional[Oldest] = Field(None, description="batches over candidate sequences")


class BatchInput(Section):
    """An input that is made of the sizes of a ragged batch."""

    kind: Literal[
        "BATCH_ELEMENT_COUNT",
        "BATCH_ACCUMULATED_ELEMENT_COUNT",
        "BATCH_ACCUMULATED_ELEMENT_COUNT_WITH_ZERO",
        "BATCH_MAX_ELEMENT_COUNT_AS_SHAPE",
        "BATCH_ITEM_SHAPE",
        "BATCH_ITEM_SHAPE_FLATTEN",
    ] = Field("BATCH_ELEMENT_COUNT", description="what it is made of")
    target_name: Tuple[str, ...] = Field((), description="names of the inputs")
    data_type: DataTypeName = Field("TYPE_INVALID", description="datatype")
    source_input: Tuple[str, ...] = Field((), description="inputs whose sizes are used")


class BatchOutput(Section):
    """An output that is cut by the sizes of a ragged batch."""

    target_name: Tuple[str, ...] = Field((), description="names of the outputs")
    kind: Literal["BATCH_SCATTER_WITH_INPUT_SHAPE"] = Field("BATCH_SCATTER_WITH_INPUT_SHAPE", description="how they are cut")
    source_input: Tuple[str, ...] = Field((), description="inputs whose sizes are used")
