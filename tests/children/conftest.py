"""Runs the children's own tests under their interpreters: Python 3.6 cannot run the agent's package `__init__`."""

import os
import sys
import types

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

if sys.version_info < (3, 8):  # noqa: UP036
    package = types.ModuleType("edge_agent")
    package.__path__ = [os.path.join(ROOT, "edge_agent")]
    sys.modules["edge_agent"] = package
if ROOT not in sys.path:  # the doubles lie in tests/
    sys.path.insert(0, ROOT)
