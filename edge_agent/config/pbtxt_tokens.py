"""Words, numbers, texts and signs of protobuf's text format, each with its place."""

from __future__ import annotations

import re
from typing import Iterator, NamedTuple

_CURE = "correct the line; the rest of the file was not looked at"
_SPACE = re.compile(r"(?:[ \t\r\n\v\f]+|#[^\n]*)+")
_TOKEN = re.compile(
    r"""(?P<word>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<hex>0[xX][0-9A-Fa-f]+)
      | (?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?|[0-9]+[eE][+-]?[0-9]+[fF]?|[0-9]+[fF])
      | (?P<octal>0[0-7]+)
      | (?P<int>0|[1-9][0-9]*)
      | (?P<text>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
      | (?P<sign>[{}<>\[\]:,;-])""",
    re.VERBOSE,
)
_ESCAPE = re.compile(
    rb"\\(?:([0-7]{1,3})|[xX]([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|([abfnrtv\\'\"?]))|(\\)", re.DOTALL
)
_PLAIN = dict(zip(b"abfnrtv\\'\"?", b"\a\b\f\n\r\t\v\\'\"?"))
_MAX_DIGITS = 400


class TextFormatError(Exception):
    """The text is not in protobuf's text format; says where and what was expected."""

    def __init__(self, line: int, column: int, what: str, cure: str = _CURE) -> None:
        super().__init__("line %d, column %d: %s" % (line, column, what))
        self.line, self.column, self.what, self.cure = line, column, what, cure


class Token(NamedTuple):
    """One of them; the last one of a text has the kind `end`."""

    kind: str
    text: str
    line: int
    column: int

    def error(self, expected: str) -> TextFormatError:
        """That something else was expected in its place."""
        found = "the end of the file" if self.kind == "end" else _shown(self.text)
        return TextFormatError(self.line, self.column, "expected %s, found %s" % (expected, found))


def tokens(text: str) -> Iterator[Token]:
    """The tokens of a text; raises TextFormatError at the first thing that is none."""
    position, line, line_start = 0, 1, 0
    while True:
        space = _SPACE.match(text, position)
        if space is not None:
            breaks = text.count("\n", position, space.end())
            if breaks:  # looked for in the space alone: a file may be one long line
                line, line_start = line + breaks, text.rindex("\n", position, space.end()) + 1
            position = space.end()
        column = position - line_start + 1
        if position == len(text):
            yield Token("end", "", line, column)
            return
        found = _TOKEN.match(text, position)
        if found is None:
            raise TextFormatError(line, column, _unreadable(text, position))
        kind = str(found.lastgroup)
        position = found.end()
        if kind in ("hex", "float", "octal", "int") and (len(found.group()) > _MAX_DIGITS or _glued(text, position)):
            raise TextFormatError(line, column, "%s is no number" % _shown(found.group() + text[position : position + 1]))
        yield Token(kind, found.group(), line, column)


def unescaped(token: Token) -> bytes:
    """The bytes that a text token stands for."""

    def replaced(match: re.Match[bytes]) -> bytes:
        octal, hexadecimal, short, long, plain, _ = match.groups()
        if octal is not None and int(octal, 8) < 256:
            return bytes([int(octal, 8)])
        if hexadecimal is not None:
            return bytes([int(hexadecimal, 16)])
        if plain is not None:
            return bytes([_PLAIN[plain[0]]])
        number = int(short or long or b"110000", 16)
        if number > 0x10FFFF or 0xD800 <= number < 0xE000:
            shown = _shown(match.group().decode("ascii", "replace"))
            raise TextFormatError(token.line, token.column, "%s in the text is no escape" % shown)
        return chr(number).encode()

    return _ESCAPE.sub(replaced, token.text[1:-1].encode("utf-8", "surrogatepass"))


def _glued(text: str, position: int) -> bool:
    """Whether a number runs into what follows it, as in 08 or 12abc."""
    return position < len(text) and (text[position].isalnum() or text[position] in "_.")


def _unreadable(text: str, position: int) -> str:
    if text[position] in "\"'":
        return "the text that begins here has no end in its line"
    return "%s has no meaning here" % _shown(text[position])


def _shown(text: str) -> str:
    short = text if len(text) <= 30 else text[:27] + "..."
    return short if short.isprintable() and short.strip() else ascii(short)
