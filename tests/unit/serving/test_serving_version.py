from __future__ import annotations

from pathlib import Path

import pytest

from edge_agent import errors
from edge_agent.batching.policy import BatchPolicy
from edge_agent.config.model_config import ModelConfig
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest
from edge_agent.domain.status import State
from edge_agent.domain.tensors import DataType, Tensor, TensorSpec
from edge_agent.serving.repository import VersionEntry
from edge_agent.serving.version import ServedVersion


class Clockwork(Clock):
    def monotonic(self):
        return 100.0


def version(config=None, inputs=(), outputs=(), max_batch_size=8):
    served = ServedVersion("m", VersionEntry(3, "onnxruntime_onnx", Path("model.onnx")), config or ModelConfig(), Clockwork())
    served.max_batch_size = max_batch_size
    served.inputs, served.outputs = inputs, outputs
    return served


def config(**batching):
    return ModelConfig.model_validate({"max_batch_size": 8, "dynamic_batching": batching})


def spec(*shape, datatype=DataType.FP32, name="x"):
    return TensorSpec(name, datatype, shape)


def test_a_new_version_is_loading_and_says_so():
    served = version()
    assert (served.label, served.version, served.engine, served.ready, served.settled) == (
        "m/3",
        "3",
        "onnxruntime",
        False,
        False,
    )
    assert served.as_json()["code"] == "model.loading"


def test_a_state_changes_once_and_keeps_its_since():
    served = version()
    assert served.become(State.FAILED, "model.load_failed", text="one")
    first = served.part
    assert not served.become(State.FAILED, "model.load_failed", text="two")
    assert served.part is first
    assert served.settled
    assert served.become(State.OK)


# -- policy -----------------------------------------------------------------------------------------------------------


def test_without_a_table_nobody_waits_for_company():
    policy = version().policy(500)
    assert policy == BatchPolicy(8, max_requests=500)


def test_the_table_is_taken_over_and_sizes_that_the_model_cannot_do_are_left_out():
    batching = config(
        preferred_batch_size=[2, 8], max_queue_delay_microseconds=1500, default_queue_policy={"max_queue_size": 5}
    )
    served = version(batching, max_batch_size=4)
    policy = served.policy(500)
    assert (policy.max_batch_size, policy.preferred_batch_sizes) == (4, (2,))
    assert policy.queue_policy(1).max_queue_size == 5
    assert policy.max_queue_delay_s == pytest.approx(0.0015)


def test_a_model_without_batch_dimension_takes_one_request_at_a_time():
    assert version(max_batch_size=0).policy(500).max_batch_size == 1


# -- batches ----------------------------------------------------------------------------------------------------------


def request(*shapes, datatype=DataType.FP32):
    tensors = tuple(Tensor("x%d" % n, datatype, shape, None, 0, 0) for n, shape in enumerate(shapes))
    return InferRequest("m", tensors)


def test_requests_share_a_batch_when_all_but_their_rows_is_equal():
    served = version()
    key = lambda *shapes, **fields: served._rows_and_key(request(*shapes, **fields))  # noqa: E731
    assert key((2, 4)) == (2, key((1, 4))[1])
    assert key((1, 4))[1] != key((1, 5))[1]
    assert key((1, 4))[1] != key((1, 4), datatype=DataType.INT32)[1]
    assert key((1, 4))[1] != key((1, 4), (1, 4))[1]


def test_a_model_without_batch_dimension_has_one_row_of_any_shape():
    served = version(max_batch_size=0)
    rows, key = served._rows_and_key(request((3, 4)))
    assert rows == 1
    assert key != served._rows_and_key(request((2, 4)))[1]
    assert served._rows_and_key(request((0,)))[0] == 1


def test_a_batch_of_no_rows_is_refused():
    with pytest.raises(errors.TensorMismatch, match="must be at least 1"):
        version()._rows_and_key(request((0, 4)))


# -- room for outputs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "outputs", "max_batch_size", "input_bytes", "room"),
    [
        ([spec(-1, 4)], [spec(-1, 10)], 8, 16, 64),
        ([spec(-1, 4)], [spec(-1, 10)], 8, 64, 192),
        ([spec(-1, 4)], [spec(-1, 16), spec(-1, 1)], 8, 32, 128 + 64),
        ([spec(-1, 4)], [spec(-1, 16)], 8, 1 << 20, 8 * 64),
        ([spec(-1, -1)], [spec(-1, 16)], 8, 16, 8 * 64),
        ([spec(3, 4)], [spec(3, 4)], 0, 48, 64),
        ([spec(-1, 4)], [], 8, 16, 0),
    ],
    ids=["one row", "four rows", "aligned", "no more than fit", "unknown rows", "unbatched", "none"],
)
def test_room_is_exact_where_the_shapes_are_fixed(inputs, outputs, max_batch_size, input_bytes, room):
    served = version(inputs=tuple(inputs), outputs=tuple(outputs), max_batch_size=max_batch_size)
    assert served.room_is_known
    assert served.room_for(input_bytes) == room


@pytest.mark.parametrize("output", [spec(-1, -1), spec(-1, 4, datatype=DataType.BYTES)], ids=["any size", "strings"])
def test_where_sizes_are_open_nothing_is_kept_before_the_first_answer(output):
    served = version(inputs=(spec(-1, 4),), outputs=(output, spec(-1, 4)))
    assert not served.room_is_known
    assert served.room_for(16) == 0
