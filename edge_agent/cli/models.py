"""`edge-agent models`: the models of the running agent."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict, List, Optional
from urllib.parse import quote

from edge_agent.cli import client, model_build
from edge_agent.cli.model_text import figures_text, model_lines, plain
from edge_agent.cli.terminal import Column, write_table

_COLUMNS = [
    Column("MODEL", lambda row: str(row["name"])),
    Column("VERSION", lambda row: str(row["version"])),
    Column("STATE", lambda row: str(row["state"])),
    Column("ENGINE", lambda row: str(row["engine"])),
    Column("WHY", lambda row: str(row["reason"])),
]


_CHANGES = {
    "load": "load a model, as it lies in the repository now; ends an unload",
    "unload": "take a model down until it is loaded again, over restarts and in every control mode",
    "rollback": "go back to the version that served before",
}
_OF_VERSIONS = {
    "build": "build the TensorRT plan of a version anew, and wait for it",
    "verify": "compare the TensorRT plan that serves with what the model should answer",
    "promote": "make a version serve: the one that is being compared, or --version",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do with which model."""
    client.add_arguments(parser)
    does = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=argparse.ArgumentParser)
    listing = does.add_parser("list", help="all models with their state")
    listing.add_argument("--format", choices=("table", "json"), default="table")
    show = does.add_parser("show", help="one model: versions, plans, builds, comparisons, inputs, outputs, configuration")
    show.add_argument("name", metavar="NAME")
    show.add_argument("--format", choices=("text", "json"), default="text", help="json has its configuration, too")
    for verb, does_what in {**_CHANGES, **_OF_VERSIONS}.items():
        sub = does.add_parser(verb, help=does_what)
        sub.add_argument("name", metavar="NAME")
        if verb in _OF_VERSIONS:
            sub.add_argument("--version", type=_version, metavar="N", help="which one, where it is not the usual one")
        if verb == "build":
            sub.add_argument("--no-wait", action="store_true", help="return when the build is under way")


def run(args: argparse.Namespace) -> int:
    """0, or what the agent's answer means: 1 an error, 75 it does not run or is not done yet."""
    if args.action == "list":
        _list(args)
    elif args.action == "show":
        _print_one(_show(args), args.format)
    elif args.action == "build":
        _build(args)
    elif args.action == "verify":
        return _verify(args)
    else:
        _change(args)
    return 0


def _version(text: str) -> str:
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError("%r is not the number of a version" % text)
    return text


# -- asking -------------------------------------------------------------------------------------------------------------


def _models(args: argparse.Namespace) -> List[Dict[str, Any]]:
    models: List[Dict[str, Any]] = client.ask(args, "GET", "/api/status")["models"]
    return models


def _show(args: argparse.Namespace) -> Dict[str, Any]:
    shown = next((model for model in _models(args) if model["name"] == args.name), None)
    if shown is None:
        raise client.Refused("no model is called %s" % args.name)
    if shown["state"] in ("ok", "degraded"):
        path = "/v2/models/" + quote(args.name, safe="")
        try:
            shown = {**client.ask(args, "GET", path), **shown, "config": client.ask(args, "GET", path + "/config")}
        except client.Refused:
            return shown  # it is being loaded, or went down meanwhile
    return shown


def _change(args: argparse.Namespace) -> Any:
    """Has it done; the agent answers when it is."""
    path = "/api/models/%s/%s" % (quote(args.name, safe=""), args.action)
    version: Optional[str] = getattr(args, "version", None)
    query = "" if version is None else "?version=" + version
    return client.ask(args, "POST", path + query, {}, client.LONG_S)


def _build(args: argparse.Namespace) -> None:
    begun = _change(args)
    if not args.no_wait:
        print(model_build.wait(args, _models, begun))


def _verify(args: argparse.Namespace) -> int:
    found = _change(args)
    label, figures = "%s/%s" % (found["name"], found["version"]), figures_text(found)
    if found["good"]:
        print("%s: good; %s" % (label, figures))
        return 0
    verdict = "could not be checked" if found["good"] is None else "wrong"
    print("edge-agent: %s: %s: %s; %s" % (label, verdict, plain(str(found["reason"])), figures), file=sys.stderr)
    return 1


# -- printing -----------------------------------------------------------------------------------------------------------


def _list(args: argparse.Namespace) -> None:
    if args.format == "json":
        print(json.dumps(_models(args), indent=2))
    else:
        write_table(sys.stdout, _COLUMNS, _rows(_models(args)))


def _print_one(model: Dict[str, Any], form: str) -> None:
    if form == "json":
        print(json.dumps(model, indent=2))
        return
    for line in model_lines(model):
        print(line)


def _rows(models: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    rows = []
    for model in models:
        versions = model["versions"] or [{"version": "-", "engine": "-", "state": model["state"], "reason": model["reason"]}]
        rows += [{"name": model["name"], **version} for version in versions]
    return rows
