"""The console script: one list of verbs, each in a module that is imported only when it is called."""

from __future__ import annotations

import argparse
import errno
import importlib
import io
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

from edge_agent.errors import ConfigError, EdgeAgentError

DEFAULT_CONFIG = Path("/etc/edge-agent/edge-agent.toml")

EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_TRY_AGAIN, EXIT_CONFIG, EXIT_INTERRUPTED = 0, 1, 2, 75, 78, 130


class Verb(NamedTuple):
    """A verb, what it does, and the module with its `add_arguments(parser)` and `run(args) -> int`."""

    name: str
    summary: str
    module: str


VERBS: Tuple[Verb, ...] = (
    Verb("run", "run the service in the foreground", "edge_agent.cli.run"),
    Verb("check", "validate the configuration and the model repository", "edge_agent.cli.check"),
    Verb(
        "models",
        "list, show, load, unload, build, verify, promote and roll back the models of the running agent",
        "edge_agent.cli.models",
    ),
    Verb("bench", "measure latency and throughput of a model of the running agent", "edge_agent.cli.bench"),
    Verb("results", "print kept results, newest first", "edge_agent.cli.query"),
    Verb("requests", "print the request log, newest first", "edge_agent.cli.query"),
    Verb("events", "print events, newest first", "edge_agent.cli.query"),
    Verb("logs", "print warnings and errors, newest first", "edge_agent.cli.query"),
    Verb("token", "add, list or revoke access tokens", "edge_agent.cli.token"),
    Verb("version", "print the versions of agent, Python and engines", "edge_agent.cli.version"),
)


class _VerbParser(argparse.ArgumentParser):
    """A verb's parser: asks its module for arguments when the verb is there."""

    module_name = ""
    module: Optional[ModuleType] = None

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Load the verb, then parse."""
        if self.module is None:
            self.module = importlib.import_module(self.module_name)
            self.module.add_arguments(self)
            self.set_defaults(run=self.module.run)
        return super().parse_known_args(args, namespace)


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(prog="edge-agent", description="Inference appliance agent.")
    _add_config(top, DEFAULT_CONFIG)
    verbs = top.add_subparsers(dest="verb", metavar="VERB", parser_class=_VerbParser)
    for verb in VERBS:
        sub = verbs.add_parser(verb.name, help=verb.summary, description=verb.summary[0].upper() + verb.summary[1:] + ".")
        _add_config(sub, argparse.SUPPRESS)  # not given after the verb: what was given before it stays
        sub.module_name = verb.module
    return top


def _add_config(to: argparse.ArgumentParser, default: Any) -> None:
    to.add_argument(
        "-c", "--config", type=Path, metavar="PATH", default=default, help="configuration file (%s)" % DEFAULT_CONFIG
    )


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run one command; its exit code."""
    _make_printable()
    try:
        top = parser()
        args = top.parse_args(argv)
        if args.verb is None:
            top.print_help(sys.stderr)
            return EXIT_USAGE
        code: int = args.run(args)
        sys.stdout.flush()
        return code
    except ConfigError as exc:
        return _complain(_faults(exc), EXIT_CONFIG)
    except EdgeAgentError as exc:
        return _complain([str(exc)], EXIT_TRY_AGAIN if exc.retryable else EXIT_FAILED)
    except BrokenPipeError:
        # the reader (head, less) has seen enough; without this Python complains again when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_OK
    except OSError as exc:
        if exc.errno != errno.ENOSPC:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # as above
        return _complain(["the output could not be written: %s" % exc.strerror], EXIT_FAILED)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _faults(error: ConfigError) -> List[str]:
    return ["%s: %s%s" % (path, wrong, "\n    cure: " + cure if cure else "") for path, wrong, cure in error.faults]


def _complain(lines: Sequence[str], code: int) -> int:
    for line in lines:
        print("edge-agent: " + line, file=sys.stderr)
    return code


def _make_printable() -> None:
    """A terminal that cannot show a character gets its number instead of a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
