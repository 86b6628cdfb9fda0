"""A Python model of the agent's own kind: class Model with load(config), infer(inputs) and maybe unload()."""

import inspect
import os

from edge_agent.engine_host import calls
from edge_agent.engine_host.answered import checked, missing
from edge_agent.engine_host.failures import LoadError, ModelFailed, raised


class PlainEngine:
    """Requests that run together are one dict of arrays, as with any engine."""

    apart = False
    text = False

    def __init__(self, model, spec):
        self._model = model
        self.on_close = lambda: None  #: called when the model is gone
        self._folder = os.path.dirname(spec.path)
        self.inputs = spec.specs("input")
        self.outputs = spec.specs("output")
        self.max_batch_size = spec.max_batch_size
        self._outputs = {one.name: one for one in self.outputs}

    @classmethod
    def load(cls, found, spec, message):
        """Makes the model; raises what its code raises."""
        if not callable(getattr(found, "infer", None)):
            raise LoadError("%s: class Model has no method infer(inputs)" % spec.path)
        model = found()
        engine = cls(model, spec)
        if callable(getattr(model, "load", None)):
            more = {"version": message["version"], "directory": message.get("directory", ""), "instance": message["instance"]}
            model.load(dict(spec.config, **more))
        return engine

    def run(self, names, feeds):
        """The named outputs as arrays; ModelFailed when the model did not give them."""
        # Copies: what the model keeps of them must not change, and what it changes is the caller's.
        copies = {name: array.copy() for name, array in feeds.items()}
        try:
            given = self._model.infer(copies)
            if inspect.iscoroutine(given):
                given = calls.here().run(given)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code may raise anything
            raise ModelFailed(raised(error, self._folder)) from error
        if not isinstance(given, dict):
            raise ModelFailed("infer gave %s instead of a dict of arrays by output name" % type(given).__name__)
        for name in names:
            if name not in given:
                raise missing(name, given)
        return [checked(self._outputs[name], given[name]) for name in names]

    def close(self):
        """Lets the model give back what it took."""
        unload = getattr(self._model, "unload", None)
        self._model = None
        if callable(unload):
            try:
                unload()
            except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
                raised(error, self._folder)
        del unload
        self.on_close()
