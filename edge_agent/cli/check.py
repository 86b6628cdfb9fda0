"""`edge-agent check`: everything that would stop or spoil a start, at once, with its path and its cure."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple

from edge_agent.access.gate import is_loopback
from edge_agent.access.tokens import FILE_NAME as TOKENS_FILE
from edge_agent.access.tokens import TokenFile
from edge_agent.cli.check_hosts import host_faults, python_faults
from edge_agent.cli.check_models import model_faults, model_notes
from edge_agent.cli.check_repository import check_repository, unmet_steps
from edge_agent.config.load import load_config
from edge_agent.config.root import AgentConfig
from edge_agent.config.secret import read_secret
from edge_agent.domain.clock import Clock
from edge_agent.errors import ConfigError
from edge_agent.serving.repository import ModelEntry, scan

NAME = "check"

_BAD_CONFIG = 78

Fault = Tuple[str, str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--repository` checks a folder of models alone, without a configuration."""
    parser.add_argument(
        "--repository", type=Path, metavar="PATH", help="only say, one line a model, whether the models in PATH are served"
    )


def run(args: argparse.Namespace) -> int:
    """Print every fault and answer 78, or one line and 0."""
    if args.repository is not None:
        return check_repository(args.repository)
    try:
        config = load_config(args.config, os.environ)
    except ConfigError as error:
        return _refuse(error.faults)
    entries, faults = _repository(config)
    faults = [*faults, *model_faults(entries), *_cameras(config, entries), *_files(config), *_access(config)]
    for note in _notes(config, entries):
        print("note: %s" % note, file=sys.stderr)
    if faults:
        return _refuse(faults)
    print(_summary(args.config, config, entries))
    return 0


def _refuse(faults: Sequence[Fault]) -> int:
    print(ConfigError(faults), file=sys.stderr)
    print("%d fault%s" % (len(faults), "" if len(faults) == 1 else "s"), file=sys.stderr)
    return _BAD_CONFIG


def _repository(config: AgentConfig) -> Tuple[List[ModelEntry], List[Fault]]:
    try:
        entries = [entry for entry in scan(config.models.repository) if config.models.wants(entry.name)]
    except ConfigError as error:
        return [], list(error.faults)
    faults = [("models.%s" % entry.name, entry.fault, "") for entry in entries if entry.fault]
    there = {entry.name: entry for entry in entries}
    faults.extend(("models.%s" % entry.name, step, "") for entry in entries for step in unmet_steps(entry, there))
    if config.models.control_mode == "explicit":
        missing = [name for name in config.models.load if name not in there and name != "*"]
        faults.extend(
            ("models.load", "no model is called %s" % name, "put it into the repository or take it out") for name in missing
        )
    return entries, faults


def _cameras(config: AgentConfig, entries: Sequence[ModelEntry]) -> Iterator[Fault]:
    there = sorted(entry.name for entry in entries)
    for camera in config.cameras:
        path = "cameras.%s" % camera.name
        if there and camera.model not in there:
            yield path + ".model", "no model is called %s" % camera.model, "the models here are %s" % ", ".join(there)
        if "://" not in camera.source and not Path(camera.source).exists():
            yield path + ".source", "%s is not there" % camera.source, "correct the path, or plug the camera in"
        yield from _secret(path + ".password_file", camera.password_file)


def _files(config: AgentConfig) -> Iterator[Fault]:
    """Files that the configuration names and that a start needs."""
    http, mqtt = config.http, config.mqtt
    yield from _readable("http.tls_cert_file", http.tls_cert_file)
    yield from _readable("http.tls_key_file", http.tls_key_file)
    if mqtt is not None:
        yield from _secret("mqtt.password_file", mqtt.password_file)
        for key, file in (("ca_file", mqtt.ca_file), ("cert_file", mqtt.cert_file), ("key_file", mqtt.key_file)):
            yield from _readable("mqtt." + key, file)
    yield from host_faults(config.hosts)
    yield from python_faults("vision.python", config.vision.python)


def _secret(path: str, file: Optional[Path]) -> Iterator[Fault]:
    if file is None:
        return
    try:
        read_secret(file)
    except ConfigError as error:
        yield from ((path, "%s: %s" % (where, what), cure) for where, what, cure in error.faults)


def _readable(path: str, file: Optional[Path]) -> Iterator[Fault]:
    if file is not None and not (file.is_file() and os.access(file, os.R_OK)):
        yield path, "%s is no file that can be read" % file, "correct the path, or make the file readable for the agent"


def _access(config: AgentConfig) -> Iterator[Fault]:
    tokens = TokenFile(config.agent.state_dir / TOKENS_FILE, Clock())
    try:
        tokens.load()
    except ConfigError as error:
        yield from error.faults
        return
    if not is_loopback(config.http.host) and tokens.empty():
        cure = "run: edge-agent token add NAME --role admin, or listen on 127.0.0.1"
        yield "http.host", "%s is reached from other machines, and there is no token yet" % config.http.host, cure


def _notes(config: AgentConfig, entries: Sequence[ModelEntry]) -> Iterator[str]:
    yield from config.notes
    for entry in entries:
        if entry.config.ignored:
            yield "models.%s: not used by this version: %s" % (entry.name, ", ".join(entry.config.ignored))
    yield from model_notes(entries)


def _summary(path: Path, config: AgentConfig, entries: Sequence[ModelEntry]) -> str:
    mqtt = "MQTT at %s:%d" % (config.mqtt.host, config.mqtt.port) if config.mqtt is not None else "no MQTT"
    counts = "%d model%s, %d camera%s" % (len(entries), _plural(entries), len(config.cameras), _plural(config.cameras))
    return "%s: good: %s, %s, HTTP at %s:%d" % (path, counts, mqtt, config.http.host, config.http.port)


def _plural(things: Sequence[object]) -> str:
    return "" if len(things) == 1 else "s"
