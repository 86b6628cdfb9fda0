"""Safe mode: a broken file does not end the service, the last good copy runs instead."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, List, Mapping, Optional, Tuple

from edge_agent.config import toml
from edge_agent.config.agent import DEFAULT_STATE_DIR
from edge_agent.config.durable import write_durably
from edge_agent.config.layers import Layer, find, merge
from edge_agent.config.load import build, load_config
from edge_agent.config.root import AgentConfig
from edge_agent.errors import ConfigError

FILE_NAME = "last-good.toml"
_STATE_DIR_LINE = re.compile(r"""^\s*state_dir\s*=\s*(["'])([^"'\\]+)\1\s*(?:#.*)?$""", re.M)
_HEADER = "# The last configuration that this agent started well with, kept by the agent itself.\n# original: %s\n"


def load_with_fallback(path: Path, environ: Mapping[str, str]) -> Tuple[AgentConfig, Optional[ConfigError]]:
    """The configuration, or the last good one with the faults of the broken one; raises those when there is no good copy."""
    try:
        return load_config(path, environ), None
    except ConfigError as error:
        broken = error
    for folder in _state_dirs(path, environ):
        good = _read_good(folder / FILE_NAME, path)
        if good is not None:
            return _start_good(good, path, environ, broken), broken
    raise broken


def last_good_value(state_dir: Path, location: Tuple[str, ...]) -> Any:
    """One value of the last good copy in `state_dir`; None where there is none."""
    try:
        layer = Layer(FILE_NAME, toml.parse((state_dir / FILE_NAME).read_text("utf-8")))
    except (OSError, UnicodeDecodeError, toml.TOMLDecodeError):
        return None
    return find(merge([layer]), location)


def save_last_good(config: AgentConfig) -> bool:
    """Keep a copy of what `config` was read from (file and conf.d, not the environment); False when it is there already.

    Raises ConfigError when the state directory cannot be written.
    """
    target = config.agent.state_dir / FILE_NAME
    data = ((_HEADER % config.path) + toml.write(config.settings)).encode()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file() and target.read_bytes() == data:
            return False
        write_durably(target, data)
    except OSError as exc:
        cure = "make the folder writable for the agent, or name another in agent.state_dir"
        raise ConfigError([(str(target), "cannot be written: %s" % exc.strerror, cure)]) from exc
    return True


def _read_good(file: Path, path: Path) -> Optional[Layer]:
    """The copy, if it is whole and of this very file: another agent's would be worse than none."""
    try:
        text = file.read_text("utf-8")
        layer = Layer(str(file), toml.parse(text))
    except (OSError, UnicodeDecodeError, toml.TOMLDecodeError):
        return None
    return layer if text.startswith(_HEADER % path.absolute()) else None


def _start_good(layer: Layer, path: Path, environ: Mapping[str, str], broken: ConfigError) -> AgentConfig:
    """With the environment, and without it where the fault is there."""
    for variables in (environ, {key: value for key, value in environ.items() if not key.startswith("EDGE_AGENT__")}):
        try:
            return build([layer], path, variables)
        except ConfigError:
            continue
    raise broken


def _state_dirs(path: Path, environ: Mapping[str, str]) -> List[Path]:
    """Where the copy may lie: as the environment says, as the broken file says, as systemd says, the default."""
    folder = path.absolute().parent
    said: List[Any] = [environ.get("EDGE_AGENT__AGENT__STATE_DIR"), _said_by_file(path)]
    named = [folder / text for text in said if isinstance(text, str) and text]
    if named:
        return named[:1]
    systemd = environ.get("STATE_DIRECTORY", "").split(":")[0]
    return [Path(systemd) if systemd else DEFAULT_STATE_DIR]


def _said_by_file(path: Path) -> Any:
    """`agent.state_dir` of the broken file; looked for line by line where the file is not even TOML."""
    layers: List[Layer] = []
    for file in [path, *sorted((path.parent / "conf.d").glob("[!.]*.toml"))]:
        try:
            layers.append(Layer(str(file), toml.read(file)))
        except ConfigError:
            continue
    return find(merge(layers), ("agent", "state_dir")) or _state_dir_line(path)


def _state_dir_line(path: Path) -> Optional[str]:
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError:
        return None
    found = _STATE_DIR_LINE.search(text)
    return found.group(2) if found else None
