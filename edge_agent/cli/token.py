"""`edge-agent token add|list|revoke`: who may use this agent over the network."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import List

from edge_agent.access.roles import Role
from edge_agent.access.tokens import FILE_NAME, TokenFile
from edge_agent.config.load import load_config
from edge_agent.domain.clock import Clock
from edge_agent.errors import ConfigError, InvalidRequest

NAME = "token"

_FAILED = 1
_BAD_CONFIG = 78


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`add NAME --role ROLE`, `list`, `revoke NAME`."""
    actions = parser.add_subparsers(
        dest="action", metavar="add|list|revoke", required=True, parser_class=argparse.ArgumentParser
    )
    add = actions.add_parser("add", help="make a token and print it, once")
    add.add_argument("name", metavar="NAME", help="who it is for, as seen in the log of events")
    add.add_argument("--role", required=True, choices=[role.value for role in Role], help="what it allows")
    actions.add_parser("list", help="names, roles and when each was last used")
    revoke = actions.add_parser("revoke", help="end a token at once, for a running agent too")
    revoke.add_argument("name", metavar="NAME", help="name of the token")
    for action in actions.choices.values():  # so that it may stand at the end of the line, too
        action.add_argument("-c", "--config", type=Path, metavar="PATH", default=argparse.SUPPRESS, help="configuration file")


def run(args: argparse.Namespace) -> int:
    """Do it to the file, whether the agent runs or not; it notices by itself."""
    try:
        config = load_config(args.config, os.environ)
        tokens = TokenFile(config.agent.state_dir / FILE_NAME, Clock())
        lines = _act(tokens, args)
    except ConfigError as error:
        print(error, file=sys.stderr)
        return _BAD_CONFIG
    except InvalidRequest as error:
        print(error, file=sys.stderr)
        return _FAILED
    for line in lines:
        print(line)
    return 0


def _act(tokens: TokenFile, args: argparse.Namespace) -> List[str]:
    if args.action == "add":
        return [tokens.add(args.name, Role(args.role))]
    if args.action == "revoke":
        tokens.revoke(args.name)
        return []
    return _table(tokens)


def _table(tokens: TokenFile) -> List[str]:
    rows = [("NAME", "ROLE", "CREATED", "LAST USED")]
    rows.extend((token.name, token.role.value, token.created, token.last_used or "never") for token in tokens.list())
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in rows]
