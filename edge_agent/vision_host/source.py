"""What a camera's `source` means to OpenCV: which back end, which address, which options.

The open parameters are measured ones: without nobuffer and low_delay FFmpeg hands out old frames of a camera that hangs,
with more than one decoder thread too; without the short analysis an RTSP camera takes three seconds to open.
OpenCV before 4.5.2 has no time-outs of its own: there FFmpeg's are used.
"""

import os
import re
from urllib.parse import quote, urlsplit, urlunsplit

# before cv2 is imported: its libraries would print addresses, and an address may hold a password
os.environ["OPENCV_LOG_LEVEL"] = "SILENT"
os.environ["OPENCV_FFMPEG_LOGLEVEL"] = "-8"
os.environ["OPENCV_FFMPEG_THREADS"] = "1"

import cv2  # noqa: E402

FILE, RTSP, HTTP, DEVICE = "file", "rtsp", "http", "device"
_SCHEMES = {"rtsp": RTSP, "rtsps": RTSP, "http": HTTP, "https": HTTP}
_LATER = re.compile(r"^(csi:|gst:|push$)")
_QUICK = ("analyzeduration;200000", "probesize;65536")
_LOW_DELAY = ("fflags;nobuffer", "flags;low_delay")


class Unsupported(Exception):
    """A source that this version cannot open."""


def kind_of(source):
    """FILE, RTSP, HTTP or DEVICE. Unsupported for anything else."""
    if _LATER.match(source):
        raise Unsupported("sources of kind %s are not available in this version" % re.split("[:/]", source)[0])
    if source.startswith("/dev/video"):
        return DEVICE
    scheme, separator, _ = source.partition("://")
    if not separator:
        return FILE
    try:
        return _SCHEMES[scheme.lower()]
    except KeyError:
        raise Unsupported("sources of kind %s:// are not available in this version" % scheme) from None


def address(source, username, password):
    """The source with its credentials percent-encoded in it. Never log it."""
    if not username and not password:
        return source
    parts = urlsplit(source)
    host = parts.netloc.rpartition("@")[2]
    user = "%s:%s@" % (quote(username, safe=""), quote(password, safe=""))
    return urlunsplit((parts.scheme, user + host, parts.path, parts.query, parts.fragment))


class Opening:
    """How one source is to be opened."""

    def __init__(self, message):
        self.source = message["source"]
        self.kind = kind_of(self.source)
        self.username = message.get("username", "")
        self.password = message.get("password", "")
        self.transport = message.get("transport", "tcp")
        self.loop = message.get("loop", True)
        self.open_timeout_ms = int(message.get("open_timeout_ms", 5000))
        self.read_timeout_ms = int(message.get("read_timeout_ms", 3000))

    def ways(self):
        """The FFmpeg option strings to try, best first."""
        if self.kind == HTTP:
            return [_joined(_LOW_DELAY + self._timeout("rw_timeout"))]
        if self.kind != RTSP:
            return [""]
        transports = ("tcp", "udp") if self.transport == "auto" else (self.transport,)
        common = _LOW_DELAY + self._timeout("stimeout")
        quick = [_joined(("rtsp_transport;" + transport,) + common + _QUICK) for transport in transports]
        return quick + [_joined(("rtsp_transport;" + transport,) + common) for transport in transports]

    def _timeout(self, option):
        """FFmpeg's own time-out where OpenCV has none; microseconds."""
        return () if hasattr(cv2, "CAP_PROP_OPEN_TIMEOUT_MSEC") else ("%s;%d" % (option, self.read_timeout_ms * 1000),)

    def capture(self, way):
        """A cv2.VideoCapture, open or not, by one of ways()."""
        if self.kind == DEVICE:
            return cv2.VideoCapture(self.source, cv2.CAP_V4L2)
        os.environ["OPENCV_FFMPEG_CAPTURE_OPTIONS"] = way
        where = address(self.source, self.username, self.password) if self.kind in (RTSP, HTTP) else self.source
        parameters = self._parameters()
        if parameters:
            return cv2.VideoCapture(where, cv2.CAP_FFMPEG, parameters)
        return cv2.VideoCapture(where, cv2.CAP_FFMPEG)

    def _parameters(self):
        """Open parameters, as far as this OpenCV knows them: before it had the time-outs it took no parameters at all."""
        if not hasattr(cv2, "CAP_PROP_OPEN_TIMEOUT_MSEC"):
            return []
        wanted = [("CAP_PROP_N_THREADS", 1)]
        if self.kind in (RTSP, HTTP):
            wanted += [
                ("CAP_PROP_OPEN_TIMEOUT_MSEC", self.open_timeout_ms),
                ("CAP_PROP_READ_TIMEOUT_MSEC", self.read_timeout_ms),
            ]
        known = [(getattr(cv2, name), value) for name, value in wanted if hasattr(cv2, name)]
        return [number for pair in known for number in pair]


def _joined(options):
    return "|".join(options)
