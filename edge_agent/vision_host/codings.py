"""gzip and deflate (zlib), as Content-Encoding names them, in steps whose size does not depend on what was sent."""

import zlib

WINDOWS = {"gzip": 31, "deflate": 15}
_STEP_BYTES = 1 << 20
_INPUT_BYTES = 1 << 16
_FREE_MEMBERS = 1000  # that may be in one body before their average size matters, and that size
_MEMBER_BYTES = 1024
_LEVEL = 1  # of compression: what takes longer costs a board more than it saves its network


class BadCoding(Exception):
    """Not data in this coding, or not all of it."""


class TooLarge(Exception):
    """More plain bytes than allowed."""


class Target:
    """A slot that is written from its start; what does not fit is counted and dropped."""

    def __init__(self, view):
        self._view = view
        self.written = 0

    @property
    def fits(self):
        """Whether everything found room."""
        return self.written <= len(self._view)

    def write(self, data):
        """Adds bytes."""
        if self.written + len(data) <= len(self._view):
            self._view[self.written : self.written + len(data)] = data
        self.written += len(data)


def inflate(data, coding, limit, target):
    """Plain bytes of `data` into the target, gzip in several members too. BadCoding, TooLarge."""
    stream = zlib.decompressobj(WINDOWS[coding])
    members = 1
    at = 0
    while at < len(data):
        if stream.eof:
            members += 1
            _check_members(coding, members, len(data))
            stream = zlib.decompressobj(WINDOWS[coding])
        # the input goes in by steps too: zlib copies what it leaves of it each time
        piece = data[at : at + _INPUT_BYTES]
        at += len(piece)
        while len(piece) and not stream.eof:
            target.write(_step(stream, piece, coding))
            if target.written > limit:
                raise TooLarge("the request body, inflated from %s, is over the limit of %d bytes" % (coding, limit))
            piece = stream.unconsumed_tail
        at -= len(stream.unused_data)
    if not stream.eof:
        raise BadCoding("the request body ends within its %s data" % coding)


def _check_members(coding, members, nbytes):
    if coding != "gzip":
        raise BadCoding("the request body goes on behind its %s data" % coding)
    if members > _FREE_MEMBERS + nbytes // _MEMBER_BYTES:
        raise BadCoding("the request body is made of too many tiny gzip members: %d" % members)


def _step(stream, piece, coding):
    try:
        return stream.decompress(piece, _STEP_BYTES)
    except zlib.error as error:
        raise BadCoding("the request body is no %s data: %s" % (coding, error)) from None


def deflate(data, coding, target):
    """`data` into the target, compressed."""
    stream = zlib.compressobj(_LEVEL, zlib.DEFLATED, WINDOWS[coding])
    for at in range(0, len(data), _STEP_BYTES):
        target.write(stream.compress(data[at : at + _STEP_BYTES]))
    target.write(stream.flush())
