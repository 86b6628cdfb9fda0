"""What `import triton_python_backend_utils` gives a Python model: the part of Triton's module that has a meaning here."""

import sys

import numpy

from edge_agent.engine_host.pb_request import InferenceRequest, InferenceResponse
from edge_agent.engine_host.pb_tensor import (
    Tensor,
    TritonError,
    TritonModelException,
    numpy_to_triton_type,
    triton_to_numpy_type,
)
from edge_agent.engine_host.tensors import NUMPY_TYPES, from_wire, to_wire
from edge_agent.engine_host.wire import DATATYPE_CODES

__all__ = [
    "InferenceRequest",
    "InferenceResponse",
    "Logger",
    "Tensor",
    "TritonError",
    "TritonModelException",
    "deserialize_bytes_tensor",
    "get_input_config_by_name",
    "get_input_tensor_by_name",
    "get_output_config_by_name",
    "get_output_tensor_by_name",
    "numpy_to_triton_type",
    "serialize_byte_tensor",
    "triton_string_to_numpy",
    "triton_to_numpy_type",
    "using_decoupled_model_transaction_policy",
]

TRITONSERVER_REQUEST_FLAG_SEQUENCE_START = 1
TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 2


def get_input_tensor_by_name(inference_request, name):
    """The request's input of that name, or None."""
    return _named(inference_request.inputs(), name)


def get_output_tensor_by_name(inference_response, name):
    """The response's output of that name, or None; None for a response with an error."""
    return None if inference_response.has_error() else _named(inference_response.output_tensors(), name)


def _named(tensors, name):
    for tensor in tensors:
        if tensor.name() == name:
            return tensor
    return None


def get_input_config_by_name(model_config, name):
    """The input's part of the configuration (a dict), or None."""
    return _configured(model_config, "input", name)


def get_output_config_by_name(model_config, name):
    """The output's part of the configuration (a dict), or None."""
    return _configured(model_config, "output", name)


def _configured(model_config, role, name):
    for fields in model_config.get(role) or ():
        if fields["name"] == name:
            return fields
    return None


def using_decoupled_model_transaction_policy(model_config):
    """Whether the model is decoupled; such a model is not served here."""
    return bool((model_config.get("model_transaction_policy") or {}).get("decoupled"))


def triton_string_to_numpy(triton_type_string):
    """Numpy's type for a name like TYPE_FP32."""
    name = triton_type_string[len("TYPE_") :]
    wanted = NUMPY_TYPES.get("BYTES" if name == "STRING" else name)
    if wanted is None:
        raise TritonModelException("numpy has no type for %s" % triton_type_string)
    return wanted.type


def serialize_byte_tensor(input_tensor):
    """Strings with a length before each, as a flat array of bytes."""
    return to_wire(numpy.asarray(input_tensor), "BYTES")


def deserialize_bytes_tensor(encoded_tensor):
    """The strings of such bytes, as a flat object array."""
    data = bytes(encoded_tensor)
    count = at = 0
    while at < len(data):
        at += 4 + int.from_bytes(data[at : at + 4], "little")
        count += 1
    return from_wire(memoryview(data), DATATYPE_CODES["BYTES"], (count,), text=False)


class Logger:
    """Lines in the host's log."""

    INFO, WARNING, ERROR, VERBOSE = "info", "warning", "error", "verbose"

    @staticmethod
    def log(message, level="info"):
        """One line of some level."""
        sys.stderr.write("%s: %s\n" % (level, message))
        sys.stderr.flush()

    @classmethod
    def log_info(cls, message):
        """One line."""
        cls.log(message, cls.INFO)

    @classmethod
    def log_warn(cls, message):
        """One line."""
        cls.log(message, cls.WARNING)

    @classmethod
    def log_error(cls, message):
        """One line."""
        cls.log(message, cls.ERROR)

    @classmethod
    def log_verbose(cls, message):
        """Nothing: verbose lines are off."""


def load_model(model_name, files=None, config=None):
    """Refused: models are loaded by the agent's operator."""
    raise TritonModelException("model '%s' is not loaded from within a model: use the repository's API" % model_name)


def unload_model(model_name):
    """Refused likewise."""
    raise TritonModelException("model '%s' is not unloaded from within a model: use the repository's API" % model_name)
