"""What JPEG, PNG and WebP bytes say about themselves, read without decoding them.

Only the outermost structure is walked, so that a picture's size is known before any memory is taken for it, and a picture
that was cut off is refused: the decoders would answer half a picture without a word.
"""

import struct

PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_START_OF_SCAN = 0xDA
_END_OF_IMAGE = b"\xff\xd9"
_WITHOUT_LENGTH = frozenset([0x01] + list(range(0xD0, 0xDA)))
_FRAME_HEADERS = frozenset(range(0xC0, 0xD0)) - frozenset((0xC4, 0xC8, 0xCC))


class BadPicture(Exception):
    """Not a picture that can be used; `code` says in which way."""

    def __init__(self, code, text):
        Exception.__init__(self, text)
        self.code = code
        self.text = text


class Header:
    """Kind (JPEG, PNG, WebP), width and height as coded (before EXIF turns it), and where its pixels begin."""

    __slots__ = ("kind", "width", "height", "pixels_at")

    def __init__(self, kind, width, height, pixels_at):
        self.kind = kind
        self.width = width
        self.height = height
        self.pixels_at = pixels_at


def read(data):
    """The Header of a picture's bytes. BadPicture: image.empty, image.not_a_picture, image.truncated."""
    if not data:
        raise BadPicture("image.empty", "the picture is empty: no bytes were sent")
    for signature, kind, reader in _READERS:
        if data.startswith(signature):
            try:
                width, height, pixels_at = reader(data)
            except (struct.error, IndexError):
                raise _truncated(kind, "it ends within its header") from None
            if not width or not height:
                raise BadPicture("image.not_a_picture", "the %s says it is %d x %d pixels" % (kind, width, height))
            return Header(kind, width, height, pixels_at)
    raise BadPicture("image.not_a_picture", "not a picture: the %d bytes are neither JPEG, PNG nor WebP" % len(data))


def check_whole(data, header):
    """BadPicture image.truncated when bytes are missing at the end."""
    if header.kind == "JPEG" and data.rfind(_END_OF_IMAGE, header.pixels_at) < 0:
        raise _truncated(header.kind, "no end marker in its %d bytes" % len(data))
    if header.kind == "PNG" and not _png_has_end(data):
        raise _truncated(header.kind, "no end chunk in its %d bytes" % len(data))
    if header.kind == "WebP":
        said = struct.unpack_from("<I", data, 4)[0] + 8
        if said > len(data):
            raise _truncated(header.kind, "%d of %d bytes are there" % (len(data), said))


def _truncated(kind, how):
    return BadPicture("image.truncated", "the %s is cut off: %s" % (kind, how))


def _damaged(kind, how):
    return BadPicture("image.not_a_picture", "the %s is damaged: %s" % (kind, how))


def _jpeg(data):
    at = 2
    size = None
    while True:
        if data[at] != 0xFF:
            raise _damaged("JPEG", "no marker at byte %d" % at)
        while data[at] == 0xFF:
            at += 1
        marker = data[at]
        at += 1
        if marker in _WITHOUT_LENGTH:
            continue
        (length,) = struct.unpack_from(">H", data, at)
        if marker in _FRAME_HEADERS:
            height, width = struct.unpack_from(">HH", data, at + 3)
            size = (width, height)
        at += max(length, 2)
        if marker == _START_OF_SCAN:
            break
    if size is None:
        raise _damaged("JPEG", "no frame header before its pixels")
    return size[0], size[1], at


def _png(data):
    length, name, width, height = struct.unpack_from(">I4sII", data, 8)
    if name != b"IHDR" or length != 13:
        raise _damaged("PNG", "it does not start with its header chunk")
    return width, height, 33


def _png_has_end(data):
    at = 8
    while at + 12 <= len(data):
        length, name = struct.unpack_from(">I4s", data, at)
        at += 12 + length
        if name == b"IEND":
            return at <= len(data)
    return False


def _webp(data):
    _, form, chunk = struct.unpack_from("<I4s4s", data, 4)
    if form != b"WEBP":
        raise BadPicture("image.not_a_picture", "not a picture: a RIFF file, but not WebP")
    if chunk == b"VP8 ":
        start, width, height = struct.unpack_from("<3sHH", data, 23)
        if start != b"\x9d\x01\x2a":
            raise _damaged("WebP", "its start code is missing")
        return width & 0x3FFF, height & 0x3FFF, 20
    if chunk == b"VP8L":
        (bits,) = struct.unpack_from("<I", data, 21)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, 20
    if chunk == b"VP8X":
        low_w, high_w, low_h, high_h = struct.unpack_from("<HBHB", data, 24)
        return (high_w << 16 | low_w) + 1, (high_h << 16 | low_h) + 1, 30
    raise _damaged("WebP", "its first chunk is unknown")


_READERS = (
    (b"\xff\xd8\xff", "JPEG", _jpeg),
    (PNG_SIGNATURE, "PNG", _png),
    (b"RIFF", "WebP", _webp),
)
