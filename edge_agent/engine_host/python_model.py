"""A model written in Python: class `Model`, or Triton's `TritonPythonModel`, in the model.py of a version."""

import itertools
import os
import sys
import types

from edge_agent.engine_host import pb_utils
from edge_agent.engine_host.beside import Beside
from edge_agent.engine_host.failures import LoadError, raised, shortened
from edge_agent.engine_host.model_spec import ModelSpec
from edge_agent.engine_host.plain_engine import PlainEngine
from edge_agent.engine_host.triton_engine import TritonEngine

_numbers = itertools.count(1)  # of the modules of all models here: two may each be called model.py


def open_engine(message):
    """The engine for a `load` message, loaded and ready; LoadError says what is wrong with the model's code or config."""
    sys.modules["triton_python_backend_utils"] = pb_utils
    path = message["path"]
    spec = ModelSpec(message)
    if spec.decoupled:
        text = "%s: it is decoupled (model_transaction_policy), which this agent does not serve; answer each request once"
        raise LoadError(text % path)
    name = "edge_agent_model_%d" % next(_numbers)
    version = os.path.dirname(os.path.abspath(path))
    beside = Beside(name, [version, os.path.abspath(message.get("directory") or version)])
    beside.begin()
    try:
        engine = _open(path, _module(name, path, beside.builtins), spec, message)
        engine.on_close = beside.forget
        return engine
    except LoadError:
        beside.forget()
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001 - foreign code may raise anything
        beside.forget()
        raise LoadError("%s: %s" % (path, raised(error, os.path.dirname(path)))) from error


def _open(path, module, spec, message):
    for name, engine in (("TritonPythonModel", TritonEngine), ("Model", PlainEngine)):
        found = getattr(module, name, None)
        if found is not None:
            return engine.load(found, spec, message)
    raise LoadError("%s: has neither a class Model nor a class TritonPythonModel" % path)


def _module(name, path, names):
    """A fresh module each time: each instance has its own, and a reload must see the new text.

    It is known to the import system under a name of its own, since dataclasses and pickle look there.
    """
    module = types.ModuleType(name)
    module.__file__ = path
    module.__dict__["__builtins__"] = names
    try:
        with open(path, "rb") as source:
            text = source.read()
        code = compile(text, path, "exec")
    except OSError as error:
        raise LoadError("%s: cannot be read: %s" % (path, os.strerror(error.errno))) from error
    except (SyntaxError, ValueError) as error:
        text = "%s: Python %d.%d cannot read it: %s"
        raise LoadError(text % ((path,) + sys.version_info[:2] + (shortened(error),))) from error
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module
