"""Triton's InferenceRequest and InferenceResponse, for Python models: what comes to them, and what they ask of others."""

import json
import operator

from edge_agent.engine_host import calls
from edge_agent.engine_host.failures import ModelFailed
from edge_agent.engine_host.pb_tensor import Tensor, TritonError, TritonModelException


class InferenceResponse:
    """Outputs or an error."""

    def __init__(self, output_tensors=None, error=None, parameters=None):
        for tensor in output_tensors or ():
            if not isinstance(tensor, Tensor):
                raise TritonModelException("output_tensors holds %s instead of Tensor" % type(tensor).__name__)
        self._outputs = list(output_tensors or ())
        self._error = TritonError(error) if isinstance(error, str) else error
        self._parameters = parameters

    def output_tensors(self):
        """Its outputs."""
        return self._outputs

    def has_error(self):
        """Whether it says why there are none."""
        return self._error is not None

    def error(self):
        """The error, or None."""
        return self._error

    def parameters(self):
        """What it carries beside the outputs, as JSON; not passed on to the client."""
        return self._parameters if isinstance(self._parameters, str) else json.dumps(self._parameters or {})


class InferenceRequest:
    """Inputs for a model. `exec` and `async_exec` send it to another model; an answer that is an error is no exception."""

    def __init__(
        self,
        request_id="",
        correlation_id=0,
        inputs=None,
        requested_output_names=None,
        model_name="",
        model_version=-1,
        flags=0,
        timeout=0,
        preferred_memory=None,
        trace=None,
        parameters="",
    ):
        for tensor in inputs or ():
            if not isinstance(tensor, Tensor):
                raise TritonModelException("inputs holds %s instead of Tensor" % type(tensor).__name__)
        self._id = request_id
        self._correlation_id = correlation_id
        self._inputs = list(inputs or ())
        self._wanted = list(requested_output_names or ())
        self._model = model_name
        self._version = int(model_version)
        self._flags = flags
        self._timeout = timeout
        self._parameters = parameters if isinstance(parameters, str) else json.dumps(parameters)

    def inputs(self):
        """Its tensors."""
        return self._inputs

    def get_input_tensor_by_name(self, name):
        """The tensor of that name, or None."""
        return next((tensor for tensor in self._inputs if tensor.name() == name), None)

    def requested_output_names(self):
        """What is asked for."""
        return self._wanted

    def request_id(self):
        """The client's id, or an empty one."""
        return self._id

    def correlation_id(self):
        """Of its sequence: 0, as sequences do not come here."""
        return self._correlation_id

    def model_name(self):
        """The model it is for, where it was made for one."""
        return self._model

    def model_version(self):
        """Its version, -1 for the newest."""
        return self._version

    def flags(self):
        """Of its sequence."""
        return self._flags

    def set_flags(self, flags):
        """Sets them."""
        self._flags = flags

    def timeout(self):
        """Microseconds that it may wait in a queue; 0: the model's own."""
        return self._timeout

    def parameters(self):
        """What the client sent beside the tensors, as JSON."""
        return self._parameters

    def is_cancelled(self):
        """False: what a client left is taken out before it comes here."""
        return False

    def get_response_sender(self):
        """Refused: it belongs to decoupled models."""
        raise TritonModelException("only decoupled models send responses by themselves, and those are not served")

    def exec(self, decoupled=False):
        """Runs it and waits for the answer."""
        try:
            caller, pending = self._begin(decoupled)
        except ModelFailed as error:
            return InferenceResponse(error=TritonError.of(str(error), error.status))
        caller.wait(pending)
        return _response(pending)

    def async_exec(self, decoupled=False):
        """Begins to run it at once; await what it returns, within an `async def execute`."""
        if not calls.here().awaits:
            raise TritonModelException("async_exec is for `async def execute`; use exec here")
        try:
            caller, pending = self._begin(decoupled)
        except ModelFailed as error:
            return _answered(InferenceResponse(error=TritonError.of(str(error), error.status)))
        return _awaited(caller, pending)

    def _begin(self, decoupled):
        if decoupled:
            raise ModelFailed("decoupled models are not served", "UNSUPPORTED")
        if not self._model:
            raise ModelFailed("the request names no model to run it", "INVALID_ARG")
        fields = {
            "model": self._model,
            "version": "" if self._version < 0 else str(self._version),
            "outputs": self._wanted,
            "id": str(self._id),
            "timeout": _timeout(self._timeout),
            "parameters": _parameters(self._parameters),
        }
        caller = calls.here()
        inputs = [(tensor.name(), tensor.triton_dtype(), tensor.as_numpy()) for tensor in self._inputs]
        return caller, caller.begin(fields, inputs)


def _timeout(value):
    try:
        number = operator.index(value or 0)  # numpy's whole numbers as well
    except TypeError:
        number = -1
    if number < 0:
        raise ModelFailed("timeout is a whole number of microseconds, not %r" % (value,), "INVALID_ARG")
    return number


def _parameters(text):
    try:
        found = json.loads(text or "{}")
    except ValueError as error:
        raise ModelFailed("parameters are no JSON: %s" % error, "INVALID_ARG") from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise ModelFailed("parameters are a dict or the JSON text of one, not %s" % text[:100], "INVALID_ARG")
    return found


async def _awaited(caller, pending):
    await caller.awaited(pending)
    return _response(pending)


async def _answered(response):
    return response


def _response(pending):
    if pending.error is not None:
        return InferenceResponse(error=TritonError.of(*pending.error))
    return InferenceResponse([Tensor(name, array) for name, _, array in pending.outputs])
