"""Secrets lie in files of their own; the configuration only names them."""

from __future__ import annotations

from pathlib import Path

from edge_agent.errors import ConfigError

_MAX_BYTES = 65_536


def read_secret(path: Path) -> str:
    """The file's text without its last line end; raises ConfigError (which never shows the text)."""
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise ConfigError(
            [(str(path), "the secret cannot be read: %s" % exc.strerror, "make the file readable for the agent")]
        ) from exc
    if len(data) > _MAX_BYTES:
        raise ConfigError([(str(path), "the secret is over %d bytes" % _MAX_BYTES, "check that the right file is named")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError([(str(path), "the secret is not text", "check that the right file is named")]) from None
    text = text[: -len("\n")] if text.endswith("\n") else text
    text = text[: -len("\r")] if text.endswith("\r") else text
    if not text:
        raise ConfigError([(str(path), "the secret is empty", "write the password into the file")])
    return text
