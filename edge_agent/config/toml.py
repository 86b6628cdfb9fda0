"""TOML in and out: what the standard library reads, and the little writer that the last good copy needs."""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence

from edge_agent.errors import ConfigError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TOMLDecodeError = tomllib.TOMLDecodeError

_MAX_BYTES = 1_048_576
_SYNTAX_CURE = "correct the line; the rest of the file was not looked at"


def parse(text: str) -> Dict[str, Any]:
    """The tables of a text; raises TOMLDecodeError."""
    return tomllib.loads(text)


def read(path: Path) -> Dict[str, Any]:
    """The tables of a file; raises ConfigError that says what is wrong with it."""
    where = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except FileNotFoundError as exc:
        raise ConfigError(
            [(where, "there is no such file", "name the configuration with --config, or write this file")]
        ) from exc
    except OSError as exc:
        raise ConfigError([(where, "cannot be read: %s" % exc.strerror, "make it a file that the agent may read")]) from exc
    if len(data) > _MAX_BYTES:
        raise ConfigError([(where, "is over 1 MB", "check that the right file is named")])
    if not data.strip(b"\0 \t\r\n"):
        raise ConfigError([(where, "the file is empty", "write it again, or copy configs/edge-agent.toml")])
    return _tables(data, where)


def _tables(data: bytes, where: str) -> Dict[str, Any]:
    try:
        return parse(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError([(where, "is not UTF-8 text (line %d)" % line, "save it as UTF-8")]) from exc
    except TOMLDecodeError as exc:
        raise ConfigError([(where, "is not TOML: %s" % exc, _SYNTAX_CURE)]) from exc
    except RecursionError as exc:
        raise ConfigError([(where, "is nested too deeply", _SYNTAX_CURE)]) from exc


def write(tables: Mapping[str, Any]) -> str:
    """The same tables as text; reading it gives them back."""
    lines: List[str] = []
    _write_table((), tables, lines)
    return "\n".join(lines) + "\n"


def _write_table(path: Sequence[str], table: Mapping[str, Any], lines: List[str]) -> None:
    below = {key: value for key, value in table.items() if isinstance(value, Mapping) or _is_tables(value)}
    lines.extend("%s = %s" % (_text(key), _value(value)) for key, value in table.items() if key not in below)
    for key, value in below.items():
        header = ".".join(_text(part) for part in (*path, key))
        for item in [value] if isinstance(value, Mapping) else value:
            lines.append(("[%s]" if item is value else "[[%s]]") % header)
            _write_table((*path, key), item, lines)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        return "{%s}" % ", ".join("%s = %s" % (_text(key), _value(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return "[%s]" % ", ".join(_value(item) for item in value)
    return _text(str(value))


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
