"""`edge-agent models`: the models of the running agent."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict, List
from urllib.parse import quote

from edge_agent.cli import client
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
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do with which model."""
    client.add_arguments(parser)
    does = parser.add_subparsers(dest="action", required=True, metavar="ACTION", parser_class=argparse.ArgumentParser)
    listing = does.add_parser("list", help="all models with their state")
    listing.add_argument("--format", choices=("table", "json"), default="table")
    for verb, does_what in _CHANGES.items():
        does.add_parser(verb, help=does_what).add_argument("name", metavar="NAME")
    show = does.add_parser("show", help="one model: versions, inputs, outputs, configuration")
    show.add_argument("name", metavar="NAME")


def run(args: argparse.Namespace) -> int:
    """0, or what the agent's answer means: 1 an error, 75 it does not run or is not done yet."""
    if args.action in _CHANGES:
        path = "/api/models/%s/%s" % (quote(args.name, safe=""), args.action)
        client.ask(args, "POST", path, {}, client.LONG_S)
    elif args.action == "show":
        print(json.dumps(_show(args), indent=2))
    elif args.format == "json":
        print(json.dumps(_models(args), indent=2))
    else:
        write_table(sys.stdout, _COLUMNS, _rows(_models(args)))
    return 0


def _models(args: argparse.Namespace) -> List[Dict[str, Any]]:
    models: List[Dict[str, Any]] = client.ask(args, "GET", "/api/status")["models"]
    return models


def _show(args: argparse.Namespace) -> Dict[str, Any]:
    shown = next((model for model in _models(args) if model["name"] == args.name), None)
    if shown is None:
        raise client.Refused("no model is called %s" % args.name)
    if shown["state"] == "ok":
        path = "/v2/models/" + quote(args.name, safe="")
        shown = {**shown, **client.ask(args, "GET", path), "config": client.ask(args, "GET", path + "/config")}
    return shown


def _rows(models: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    rows = []
    for model in models:
        versions = model["versions"] or [{"version": "-", "engine": "-", "state": model["state"], "reason": model["reason"]}]
        rows += [{"name": model["name"], **version} for version in versions]
    return rows
