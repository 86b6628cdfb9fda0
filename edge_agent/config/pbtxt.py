"""Reads protobuf's text format, in which Triton's `config.pbtxt` is written, without knowing any schema."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Iterator, List

from edge_agent.config.pbtxt_tokens import TextFormatError, Token, tokens, unescaped
from edge_agent.errors import ConfigError

#: fields by name; without a schema each may be repeated, so each is the list of its values in their order
Message = Dict[str, List[Any]]

_MAX_BYTES = 1_048_576
_MAX_DEPTH = 100
_CLOSED_BY = {"{": "}", "<": ">"}
_VALUE = "a value"


class Word(str):
    """A word without quotes: an enumeration's value, true, inf."""


def read(path: Path) -> Message:
    """The message in a file; raises ConfigError with line and column."""
    where = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as exc:
        raise ConfigError([(where, "cannot be read: %s" % exc.strerror, "make it a file that the agent may read")]) from exc
    if len(data) > _MAX_BYTES:
        raise ConfigError([(where, "is over 1 MB", "check that the right file is named")])
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ConfigError([(where, "is not UTF-8 text (line %d)" % line, "save it as UTF-8")]) from exc
    return parse(text, where)


def parse(text: str, where: str = "config.pbtxt") -> Message:
    """The message that a text describes; raises ConfigError with line, column and what was expected."""
    try:
        return _Parser(text).whole()
    except TextFormatError as exc:
        raise ConfigError([("%s:%d:%d" % (where, exc.line, exc.column), exc.what, exc.cure)]) from exc


class _Parser:
    """Recursive descent with one token to look at."""

    def __init__(self, text: str) -> None:
        self._tokens: Iterator[Token] = tokens(text)
        self._next: Token = next(self._tokens)
        self._depth = 0

    def whole(self) -> Message:
        return self._fields("")

    def _take(self) -> Token:
        token = self._next
        if token.kind != "end":
            self._next = next(self._tokens)
        return token

    def _at(self, *signs: str) -> bool:
        return self._next.kind == "sign" and self._next.text in signs

    def _fields(self, end: str) -> Message:
        """Fields up to the closing sign, or to the end of the text."""
        message: Message = {}
        while not (self._at(end) if end else self._next.kind == "end"):
            if self._next.kind != "word":
                raise self._next.error("the name of a field" + (" or %s" % end if end else ""))
            name = self._take().text
            message.setdefault(name, []).extend(self._field())
            if self._at(",", ";"):
                self._take()
        return message

    def _field(self) -> List[Any]:
        colon = self._at(":")
        if colon:
            self._take()
        if self._at("["):
            return self._list(colon)
        if self._at("{", "<"):
            return [self._message()]
        if not colon:
            raise self._next.error("`:` or `{` after the field's name")
        return [self._scalar(_VALUE)]

    def _list(self, scalars: bool) -> List[Any]:
        """Values in brackets; without a colon before them only messages may stand there."""
        self._take()
        values: List[Any] = []
        while not self._at("]"):
            if values:
                if not self._at(","):
                    raise self._next.error("`,` or `]`")
                self._take()
            if self._at("{", "<"):
                values.append(self._message())
            elif scalars:
                values.append(self._scalar("a value" if values else "a value or `]`"))
            else:
                raise self._next.error("`{`, or a `:` before the list")
        self._take()
        return values

    def _message(self) -> Message:
        opened = self._take()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise TextFormatError(opened.line, opened.column, "messages lie over %d deep in each other" % _MAX_DEPTH)
        message = self._fields(_CLOSED_BY[opened.text])
        self._take()
        self._depth -= 1
        return message

    def _scalar(self, expected: str) -> Any:
        if self._next.kind == "text":
            return self._text()
        negative = self._at("-")
        if negative:
            self._take()
        token = self._next
        if token.kind == "word" and (not negative or token.text.lower() in ("inf", "infinity", "nan")):
            self._take()
            return float("-" + token.text) if negative else Word(token.text)
        if token.kind not in ("int", "octal", "hex", "float"):
            raise token.error("a number after `-`" if negative else expected)
        self._take()
        number = _number(token)
        return -number if negative else number

    def _text(self) -> str:
        """Texts side by side are one."""
        first = self._next
        data = b""
        while self._next.kind == "text":
            data += unescaped(self._take())
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise TextFormatError(first.line, first.column, "the text is not UTF-8") from exc


def _number(token: Token) -> Any:
    if token.kind == "float":
        return float(token.text.rstrip("fF"))
    return int(token.text, {"hex": 16, "octal": 8}.get(token.kind, 10))
