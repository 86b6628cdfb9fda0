"""Python models of Triton's kind."""

import json

import numpy
import pytest

from edge_agent.engine_host import pb_utils, wire
from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.model import load

HEAD = """
import json
import numpy
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.args = args
        self.config = json.loads(args["model_config"])
        self.batches = []
"""


def executes(one, all_of_them="return [self.one(request) for request in requests]"):
    text = HEAD + "\n    def execute(self, requests):\n        self.batches.append(len(requests))\n        %s\n" % all_of_them
    return (
        text
        + "\n    def one(self, request):\n        x = pb_utils.get_input_tensor_by_name(request, 'x').as_numpy()\n        %s\n"
        % one
    )


ADDS = "return pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor('y', x + 1)])"


def row(value, rows=1):
    return numpy.full((rows, 4), value, numpy.float32)


def failure_of(answer):
    assert answer.status == wire.FAILED
    return json.loads(answer.text.decode())


def tell(b, number, **fields):
    """Says something of a request of the next batch, as the agent does before it."""
    assert b.runner.handle(wire.pack_note(wire.TELL, b.batch + 1, dict(fields, request=number))) == []


def test_execute_gets_the_requests_of_a_batch_as_a_list(python_bench):
    b = python_bench(executes(ADDS))
    one, two = b.run(b.request(row(1)), b.request(row(2, 3), room=1))
    assert b.arena.read(one.outputs[0]).tolist() == [[2] * 4]
    assert b.arena.read(two.outputs[0]).tolist() == [[3] * 4] * 3
    assert b.model.engine._model.batches == [2]
    assert b.times.rows == 4


def test_requests_of_a_model_without_batches_come_one_by_one(python_bench):
    b = python_bench(
        executes(ADDS),
        max_batch_size=0,
        inputs=[{"name": "x", "datatype": "FP32", "shape": [4]}],
        outputs=[{"name": "y", "datatype": "FP32", "shape": [4]}],
    )
    b.run(*[b.request(numpy.zeros(4, numpy.float32), rows=1, room=room) for room in range(2)])
    assert b.model.engine._model.batches == [1, 1]


def test_initialize_gets_tritons_arguments(python_bench):
    config = {"name": "pm", "parameters": {"sqlite_db_path": {"string_value": "/data/x.db"}}}
    b = python_bench(executes(ADDS), config_json=json.dumps(config), instance=7)
    args = b.model.engine._model.args
    assert (args["model_name"], args["model_version"], args["model_instance_kind"]) == ("pm", "1", "CPU")
    assert (args["model_instance_name"], args["model_instance_device_id"]) == ("pm_0_7", "0")
    assert args["model_repository"].endswith("/pm")
    config = b.model.engine._model.config
    assert config["parameters"]["sqlite_db_path"]["string_value"] == "/data/x.db"
    assert config["max_batch_size"] == 8
    assert pb_utils.get_output_config_by_name(config, "y") == {"name": "y", "data_type": "TYPE_FP32", "dims": [4]}
    assert pb_utils.get_input_config_by_name(config, "no") is None
    assert pb_utils.triton_string_to_numpy("TYPE_STRING") is numpy.object_


def test_a_request_tells_its_id_parameters_and_wanted_outputs(python_bench):
    body = "self.told = (request.request_id(), json.loads(request.parameters() or '{}'), request.requested_output_names())"
    b = python_bench(executes(body + "\n        " + ADDS))
    tell(b, 0, id="r-1", parameters={"k": 3})
    b.run(b.request(row(1), outputs=(0,)))
    assert b.model.engine._model.told == ("r-1", {"k": 3}, ["y"])
    b.run(b.request(row(1)))
    assert b.model.engine._model.told == ("", {}, ["y"])


BAD = "if x[0, 0] == 13:\n            %s\n        " + ADDS


@pytest.mark.parametrize(
    ("bad", "says", "status"),
    [
        ("return pb_utils.InferenceResponse(error=pb_utils.TritonError('thirteen'))", "thirteen", "INTERNAL"),
        (
            "return pb_utils.InferenceResponse(error=pb_utils.TritonError('bad', pb_utils.TritonError.INVALID_ARG))",
            "bad",
            "INVALID_ARG",
        ),
        ("return pb_utils.InferenceResponse(output_tensors=[])", "gave no output 'y', only nothing", ""),
        ("return None", "execute gave NoneType instead of an InferenceResponse", ""),
        (
            "return pb_utils.InferenceResponse([pb_utils.Tensor('y', x.astype(numpy.int64))])",
            "'y' is int64, the configuration says FP32",
            "",
        ),
        ("return pb_utils.InferenceResponse([pb_utils.Tensor('y', x.repeat(2, 0))])", "'y' has 2 rows for 1", ""),
    ],
)
def test_a_bad_response_is_that_requests_alone(python_bench, bad, says, status):
    b = python_bench(executes(BAD % bad))
    good, failed, other = b.run(*[b.request(row(value), room=room) for room, value in enumerate((1, 13, 2))])
    assert says in failure_of(failed)["text"]
    assert failure_of(failed)["status"] == status
    assert b.arena.read(good.outputs[0])[0, 0] == 2
    assert b.arena.read(other.outputs[0])[0, 0] == 3


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return []", "execute gave 0 responses for 2 requests"),
        ("return None", "execute gave NoneType instead of a list"),
        ("raise pb_utils.TritonModelException('not today')", "not today"),
        ("raise ValueError('sixteen')", "ValueError: sixteen (model.py line"),
    ],
)
def test_what_concerns_the_whole_batch_is_told_to_each(python_bench, body, says):
    b = python_bench(executes(ADDS, body))
    for answer in b.run(b.request(row(1)), b.request(row(2), room=1)):
        assert says in failure_of(answer)["text"]


def test_a_response_too_large_for_its_slot_is_kept_though_the_model_uses_the_array_again(python_bench):
    body = "self.out = getattr(self, 'out', x)\n        self.out[:] = x\n        "
    b = python_bench(executes(body + "return pb_utils.InferenceResponse([pb_utils.Tensor('y', self.out)])"))
    (answer,) = b.run(b.request(row(1), capacity=0))
    assert answer.status == wire.NO_ROOM
    b.model.engine._model.out[:] = 7
    assert b.arena.read(b.room(0, 600 << 10, 4096).outputs[0]).tolist() == [[1] * 4]


def test_strings_are_bytes_both_ways(python_bench):
    body = "assert x.dtype == object and type(x[0, 0]) is bytes\n        "
    text = executes(body + "return pb_utils.InferenceResponse([pb_utils.Tensor('y', numpy.char.add(x.astype('S'), b'!'))])")
    tensors = [[{"name": name, "datatype": "BYTES", "shape": [-1, 1]}] for name in "xy"]
    b = python_bench(text, inputs=tensors[0], outputs=tensors[1])
    (answer,) = b.run(b.request(numpy.array([[b"ab"]], object), datatype="BYTES"))
    assert b.arena.read(answer.outputs[0]).tolist() == [["ab!"]]


def test_a_model_may_tell_its_own_configuration(order_of):
    text = (
        executes(ADDS)
        + """
    @staticmethod
    def auto_complete_config(auto_complete_model_config):
        auto_complete_model_config.add_input({"name": "x", "data_type": "TYPE_FP32", "dims": [4]})
        auto_complete_model_config.add_output({"name": "y", "data_type": "TYPE_STRING", "dims": [-1]})
        auto_complete_model_config.set_max_batch_size(3)
        auto_complete_model_config.set_dynamic_batching()
        return auto_complete_model_config
"""
    )
    model, reply = load(order_of(text, inputs=[], outputs=[], max_batch_size=None))
    assert reply["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 4]}]
    assert reply["outputs"] == [{"name": "y", "datatype": "BYTES", "shape": [-1, -1]}]
    assert (reply["batched"], reply["max_batch_size"]) == (True, 3)
    assert model.engine._model.config["max_batch_size"] == 3
    contradicted = [{"name": "x", "datatype": "FP32", "shape": [5]}]
    with pytest.raises(LoadError, match="'x' is configured as TYPE_FP32"):
        load(order_of(text, inputs=contradicted, max_batch_size=0))


def test_a_decoupled_model_is_refused(order_of):
    config = json.dumps({"model_transaction_policy": {"decoupled": True}})
    with pytest.raises(LoadError, match="it is decoupled .* answer each request once"):
        load(order_of(executes(ADDS), config_json=config))


def test_finalize_is_called_once(order_of, tmp_path):
    mark = tmp_path / "mark"
    text = executes(ADDS) + "\n    def finalize(self):\n        with open(%r, 'a') as f: f.write('x')\n" % str(mark)
    model, _ = load(order_of(text))
    model.engine.close()
    model.engine.close()
    assert mark.read_text() == "x"


@pytest.mark.parametrize(
    ("array", "datatype"),
    [
        (numpy.zeros(1, numpy.float16), "FP16"),
        (numpy.zeros(1, ">f4"), "FP32"),
        (numpy.array(["text"]), "BYTES"),
        (numpy.zeros(1, bool), "BOOL"),
    ],
)
def test_a_tensor_knows_its_datatype(array, datatype):
    assert pb_utils.Tensor("t", array).triton_dtype() == datatype


def test_what_has_no_datatype_is_refused():
    with pytest.raises(pb_utils.TritonModelException, match="complex"):
        pb_utils.Tensor("t", numpy.zeros(1, complex))
    with pytest.raises(pb_utils.TritonModelException, match="as_numpy"):
        pb_utils.Tensor("t", numpy.zeros(1)).to_dlpack()


def test_strings_are_packed_and_unpacked():
    packed = pb_utils.serialize_byte_tensor(numpy.array([b"a", b"\xffbc"], object))
    assert bytes(packed) == b"\x01\0\0\0a\x03\0\0\0\xffbc"
    assert pb_utils.deserialize_bytes_tensor(packed.tobytes()).tolist() == [b"a", b"\xffbc"]


def test_the_log_gets_lines(capfd):
    pb_utils.Logger.log_warn("careful")
    pb_utils.Logger.log_verbose("much")
    assert capfd.readouterr()[1] == "warning: careful\n"
