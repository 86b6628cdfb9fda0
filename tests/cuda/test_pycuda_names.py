"""PyCUDA's names: what the runtime uses is there in each release that the JetPacks get, and the fake has no more than they."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Dict

import pytest

from edge_agent.engine_host.trt import names
from tests.fake_gpu import gpu_python

LIST = """
import inspect, json
import pycuda.driver as cuda
found = {"": [name for name in dir(cuda) if not name.startswith("_")]}
for name in found[""]:
    if inspect.isclass(getattr(cuda, name)):
        found[name] = [member for member in dir(getattr(cuda, name))]
print(json.dumps(found))
"""

#: what Python gives to classes of its own, and the fake's bookkeeping; no code of ours uses it
OWN = frozenset(("__slots__", "__static_attributes__", "__firstlineno__", "__index__", "__del__"))


@pytest.fixture
def real(each_gpu) -> Dict[str, Any]:
    """Names of the real module ("") and of its classes."""
    (line,) = each_gpu().says(LIST, "done()")
    return json.loads(line)


def test_the_runtime_uses_nothing_that_is_not_there(real):
    missing = {
        owner: [name for name in used if name not in real.get(owner, ())]
        for owner, used in names.PYCUDA.items()
        if any(name not in real.get(owner, ()) for name in used)
    }
    assert missing == {}


def test_the_fake_has_no_name_that_the_real_one_lacks(real, tmp_path):
    command = [gpu_python(tmp_path), "-I", "-c", LIST]
    fake = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)
    more = {
        owner: sorted(name for name in members if name not in real.get(owner, ()) and not _is_own(name))
        for owner, members in fake.items()
    }
    assert {owner: found for owner, found in more.items() if found} == {}
    assert len(fake[""]) > 20


def _is_own(name: str) -> bool:
    return (
        name in OWN
        or (name.startswith("_") and not name.startswith("__"))
        or name in dir(Exception)
        or name in dir(type("X", (), {}))
    )


def test_the_exceptions_descend_from_each_other_as_the_runtime_expects(each_gpu, tmp_path):
    script = """
    import json
    import pycuda.driver as cuda
    kinds = ["Error", "LogicError", "MemoryError", "RuntimeError", "LaunchError"]
    print(json.dumps([[base.__name__ for base in getattr(cuda, kind).__mro__] for kind in kinds]))
    """
    (real,) = each_gpu().says(script, "done()")
    plain = "\n".join(line.strip() for line in script.splitlines())
    command = [gpu_python(tmp_path), "-I", "-c", plain]
    fake = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert json.loads(fake) == json.loads(real)
