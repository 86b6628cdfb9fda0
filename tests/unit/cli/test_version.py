from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata

from edge_agent import __version__
from edge_agent.cli import version


def test_the_module_runs_as_the_console_script_does():
    done = subprocess.run(
        [sys.executable, "-m", "edge_agent", "version"], capture_output=True, text=True, timeout=20, check=True
    )
    lines = done.stdout.splitlines()
    assert lines[0] == "edge-agent " + __version__
    assert lines[1].startswith("Python " + platform.python_version())
    assert [line.split()[0] for line in lines[2:]] == ["onnxruntime", "tensorrt"]


def test_an_engine_is_named_with_the_version_of_whichever_package_brings_it(monkeypatch, capsys):
    monkeypatch.setattr(version, "ENGINES", (("engine", ("no-such-package", "pytest")), ("other", ("no-such-package",))))
    assert version.run(None) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["engine " + metadata.version("pytest"), "other not installed"]


def test_engines_are_not_imported_to_tell_their_versions():
    program = "import sys; from edge_agent.cli import version; version.run(None); print('onnxruntime' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.splitlines()[-1] == "False"
