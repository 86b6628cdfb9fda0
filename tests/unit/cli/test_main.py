from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest

from edge_agent.cli import main as entry
from edge_agent.errors import ConfigError, ModelNotFound, ModelNotReady

PRINTING = """
import sys
from edge_agent.cli import main, version
version.run = lambda args: print(%s) or 0
sys.exit(main.main(["version"]))
"""


@pytest.fixture
def verb(monkeypatch):
    """A verb that does what the test says, and tells with what arguments."""
    module = ModuleType("edge_agent_test_verb")
    module.seen = []

    def add_arguments(parser):
        parser.add_argument("--size", type=int, default=1)

    def run(args):
        module.seen.append(args)
        return module.act()

    module.act = lambda: 0
    module.add_arguments, module.run = add_arguments, run
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(entry, "VERBS", (entry.Verb("try", "try it", module.__name__),))
    return module


@pytest.mark.parametrize(
    ("line", "config"),
    [
        (["try"], "/etc/edge-agent/edge-agent.toml"),
        (["-c", "before.toml", "try"], "before.toml"),
        (["try", "-c", "after.toml"], "after.toml"),
        (["--config", "before.toml", "try", "--config", "after.toml"], "after.toml"),
        (["-c", "try", "try"], "try"),
    ],
)
def test_the_configuration_is_named_before_or_after_the_verb(verb, line, config):
    assert entry.main([*line, "--size", "3"]) == 0
    (args,) = verb.seen
    assert (str(args.config), args.size, args.verb) == (config, 3, "try")


def _raise(error):
    def act():
        raise error

    return act


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ModelNotFound("no model 'x'"), 1),
        (ModelNotReady("not running"), 75),
        (ConfigError([("http.port", "is too high", "use one below 65536"), ("mqtt", "is odd", "")]), 78),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_exit_codes_and_words(verb, error, code, capsys):
    verb.act = _raise(error)
    assert entry.main(["try"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    for line in str(error).splitlines():
        assert line.split(" (")[0] in err


def test_every_fault_of_a_configuration_is_printed_with_its_cure(verb, capsys):
    verb.act = _raise(ConfigError([("http.port", "is too high", "use one below 65536"), ("mqtt", "is odd", "")]))
    entry.main(["try"])
    assert capsys.readouterr().err == (
        "edge-agent: http.port: is too high\n    cure: use one below 65536\nedge-agent: mqtt: is odd\n"
    )


def test_the_verbs_own_exit_code_is_kept(verb):
    verb.act = lambda: 1
    assert entry.main(["try"]) == 1


@pytest.mark.parametrize("line", [["unknown"], ["try", "--unknown"], ["try", "--size", "x"]])
def test_a_wrong_command_line_is_exit_code_2(verb, line, capsys):
    with pytest.raises(SystemExit) as caught:
        entry.main(line)
    assert caught.value.code == 2
    assert "usage:" in capsys.readouterr().err
    assert verb.seen == []


def test_without_a_verb_the_help_is_shown(verb, capsys):
    assert entry.main([]) == 2
    assert "try it" in capsys.readouterr().err


def test_a_verbs_help_names_its_own_options(verb, capsys):
    with pytest.raises(SystemExit) as caught:
        entry.main(["try", "--help"])
    assert caught.value.code == 0
    assert "--size" in capsys.readouterr().out


def test_a_reader_who_has_seen_enough_is_no_error():
    code = PRINTING % "'x\\n' * 500_000"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(20) == 0


def test_a_terminal_without_the_characters_gets_their_numbers():
    code = PRINTING % "'人'"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=20, check=False, env={"PYTHONIOENCODING": "ascii"}
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"\\u4eba\n", b"")


def test_verbs_are_not_imported_before_they_are_called():
    code = (
        "import sys; from edge_agent.cli.main import main; main(['version'])\n"
        "print(sorted(m for m in sys.modules if m.startswith('edge_agent.') and 'cli' not in m and 'errors' not in m))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
