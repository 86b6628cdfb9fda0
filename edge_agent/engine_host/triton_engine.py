"""A Python model of Triton's kind: class TritonPythonModel with initialize(args), execute(requests), finalize()."""

import inspect
import json
import os

from edge_agent.engine_host import calls, pb_utils
from edge_agent.engine_host.answered import checked, missing
from edge_agent.engine_host.failures import LoadError, ModelFailed, raised
from edge_agent.engine_host.pb_config import AutoCompleted


class TritonEngine:
    """Requests that run together are a list, each with its own tensors and its own answer."""

    apart = True
    text = False

    def __init__(self, model, spec):
        self._model = model
        self.on_close = lambda: None  #: called when the model is gone
        self._folder = os.path.dirname(spec.path)
        self.inputs = spec.specs("input")
        self.outputs = spec.specs("output")
        self.max_batch_size = spec.max_batch_size
        self._inputs = {one.name: one for one in self.inputs}
        self._outputs = {one.name: one for one in self.outputs}

    @classmethod
    def load(cls, found, spec, message):
        """Makes the model; raises what its code raises."""
        if not callable(getattr(found, "execute", None)):
            raise LoadError("%s: class TritonPythonModel has no method execute(requests)" % spec.path)
        complete = getattr(found, "auto_complete_config", None)
        if callable(complete):
            completed = AutoCompleted(spec.config)
            spec.complete((complete(completed) or completed).as_dict())
        model = found()
        engine = cls(model, spec)
        if callable(getattr(model, "initialize", None)):
            model.initialize(_arguments(spec, message))
        return engine

    def run_apart(self, asked):
        """For each (inputs by name, wanted outputs, what was told of it) a dict of arrays, or the ModelFailed it met."""
        requests = [self._request(*one) for one in asked]
        try:
            responses = self._model.execute(requests)
            if inspect.iscoroutine(responses):
                responses = calls.here().run(responses)
        except pb_utils.TritonModelException as error:
            raise ModelFailed(str(error) or "it raised TritonModelException") from error
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code may raise anything
            raise ModelFailed(raised(error, self._folder)) from error
        if not isinstance(responses, (list, tuple)):
            raise ModelFailed("execute gave %s instead of a list of responses" % type(responses).__name__)
        if len(responses) != len(requests):
            raise ModelFailed("execute gave %d responses for %d requests" % (len(responses), len(requests)))
        return [self._answer(response, names) for response, (_, names, _) in zip(responses, asked)]

    def _request(self, feeds, names, told):
        given = [pb_utils.Tensor(name, array) for name, array in feeds.items()]
        return pb_utils.InferenceRequest(
            inputs=given,
            requested_output_names=names,
            request_id=told.get("id", ""),
            parameters=told.get("parameters") or "",
            timeout=told.get("timeout", 0),
        )

    def _answer(self, response, names):
        """Never raises: one bad response is that request's alone."""
        if not isinstance(response, pb_utils.InferenceResponse):
            return ModelFailed("execute gave %s instead of an InferenceResponse" % type(response).__name__)
        if response.has_error():
            return ModelFailed(response.error().message() or "it answered with an error", response.error().status)
        given = {tensor.name(): tensor for tensor in response.output_tensors()}
        try:
            for name in names:
                if name not in given:
                    raise missing(name, given)
            return {name: checked(self._outputs[name], given[name].as_numpy()) for name in names}
        except ModelFailed as error:
            return error

    def close(self):
        """Lets the model give back what it took."""
        finalize = getattr(self._model, "finalize", None)
        self._model = None
        if callable(finalize):
            try:
                finalize()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
                raised(error, self._folder)
        del finalize
        self.on_close()


def _arguments(spec, message):
    return {
        "model_config": json.dumps(spec.config),
        "model_instance_kind": "CPU",
        "model_instance_name": "%s_0_%d" % (message["model"], message["instance"]),
        "model_instance_device_id": "0",
        "model_repository": message.get("directory", ""),
        "model_version": str(message["version"]),
        "model_name": message["model"],
    }
