"""Protobuf's wire format as it is read from a file: fields one by one, the big ones passed over, none believed."""

from __future__ import annotations

from typing import BinaryIO, Iterator, NamedTuple, Tuple

_WINDOW = 1 << 16
_MAX_VARINT = 10  #: bytes
_MAX_FIELDS = 4_000_000  #: of one file; a model of a hundred thousand nodes has fewer

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Malformed(ValueError):
    """The file is not what it should be; the text says how."""


class Field(NamedTuple):
    """One field. A field of bytes is where it lies, any other is its number (0 where it has no meaning here)."""

    number: int
    is_bytes: bool
    value: int
    start: int
    end: int


class WireFile:
    """Reads forward through a window; holds no more than that."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.size = size
        self._file = file
        self._window = b""
        self._window_at = 0
        self._fields = 0

    def fields(self, start: int, end: int) -> Iterator[Field]:
        """The fields of the message from `start` to `end`. Raises Malformed, OSError."""
        at = start
        while at < end:
            self._fields += 1
            if self._fields > _MAX_FIELDS:
                raise Malformed("it has over %d fields" % _MAX_FIELDS)
            tag, at = self._varint(at, end)
            field = self._field(tag >> 3, tag & 7, at, end)
            yield field
            at = field.end

    def read(self, field: Field, max_bytes: int) -> bytes:
        """The bytes of a small field; Malformed when it is not small."""
        size = field.end - field.start
        if not field.is_bytes or size > max_bytes:
            raise Malformed("a text is %s" % ("over %d bytes long" % max_bytes if field.is_bytes else "a number"))
        offset = self._look(field.start, size)
        data = self._window[offset : offset + size]
        if len(data) < size:
            raise Malformed("it ends in the middle")
        return data

    def _field(self, number: int, kind: int, at: int, end: int) -> Field:
        if not number:
            raise Malformed("field 0 at byte %d" % at)
        if kind == _VARINT:
            value, after = self._varint(at, end)
            return Field(number, False, value, at, after)
        if kind == _BYTES:
            size, at = self._varint(at, end)
            return self._within(Field(number, True, 0, at, at + size), end)
        if kind in (_FIXED32, _FIXED64):
            return self._within(Field(number, False, 0, at, at + (4 if kind == _FIXED32 else 8)), end)
        raise Malformed("a field of kind %d at byte %d" % (kind, at))

    @staticmethod
    def _within(field: Field, end: int) -> Field:
        if field.end > end:
            raise Malformed("field %d at byte %d is longer than what holds it" % (field.number, field.start))
        return field

    def _varint(self, at: int, end: int) -> Tuple[int, int]:
        """The number at `at`, and where the next thing begins."""
        most = min(_MAX_VARINT, end - at)
        offset = self._look(at, most)
        value = shift = 0
        for index, byte in enumerate(self._window[offset : offset + most]):
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, at + index + 1
            shift += 7
        raise Malformed("a number at byte %d does not end" % at)

    def _look(self, at: int, size: int) -> int:
        """Moves the window so that it has `size` bytes from `at`, as far as the file does; where in it they begin."""
        offset = at - self._window_at
        if offset < 0 or offset + size > len(self._window):
            self._file.seek(at)
            self._window, self._window_at, offset = self._file.read(max(size, _WINDOW)), at, 0
        return offset
