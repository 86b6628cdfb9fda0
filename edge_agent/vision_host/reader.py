"""The thread that drains one source for as long as it gives frames, then says why it ended."""

import os
import threading
import time

import cv2

from edge_agent.vision_host import probe, source

_FPS_UNKNOWN = 25.0
_FPS_MOST = 240.0
_LATE_S = 1.0  # a file reader that is later than this starts its pace anew


class Ended(Exception):
    """No more frames: the code and text of the `closed` event."""

    def __init__(self, code, text):
        Exception.__init__(self, text)
        self.code = code
        self.text = text


class Reader(threading.Thread):
    """Opens the source, puts each frame, tells `opened`, `alive` with the first frame, and `closed`."""

    def __init__(self, opening, frames, event):
        threading.Thread.__init__(self, name="reader")
        self.daemon = True
        self._opening = opening
        self._frames = frames
        self._event = event
        self._capture = None
        self.reading = True  # until just before `closed` is told

    def run(self):
        """The thread."""
        try:
            try:
                self._read()
            except Ended as ended:
                code, text = ended.code, ended.text
            except cv2.error as error:
                code, text = "camera.unreachable", "OpenCV failed: %s" % error
            self._frames.end()
            if self._capture is not None:
                self._capture.release()
            self.reading = False
            self._event("closed", code=code, text=text)
        except OSError:
            return  # the agent is gone, and this process with it in a moment

    def _read(self):
        self._open()
        put = self._put_first
        if self._opening.kind == source.FILE:
            self._read_file(put)
        while True:
            put(self._next())
            put = self._frames.put

    def _put_first(self, picture):
        self._frames.put(picture)
        self._event("alive", **self._frames.signs())

    def _open(self):
        self._check_path()
        for number, way in enumerate(self._opening.ways()):
            started = time.monotonic()
            self._capture = self._opening.capture(way)
            if self._capture.isOpened():
                break
            if number == 0:
                self._explain(time.monotonic() - started)
        if not self._capture.isOpened():
            raise Ended("camera.unreachable", "OpenCV cannot open it")
        known = self._capture.get
        width, height = int(known(cv2.CAP_PROP_FRAME_WIDTH)), int(known(cv2.CAP_PROP_FRAME_HEIGHT))
        self._event("opened", width=width, height=height, fps=_plausible(known(cv2.CAP_PROP_FPS)), backend=self._opening.kind)

    def _check_path(self):
        path = self._opening.source
        if self._opening.kind == source.FILE and not os.path.isfile(path):
            raise Ended("camera.unreachable", "there is no file %s" % path)
        if self._opening.kind == source.DEVICE and not os.access(path, os.R_OK):
            raise Ended("camera.unreachable", "there is no readable device %s" % path)

    def _explain(self, took_s):
        """Ended with the reason, where the server gives one; silent when the server has nothing against us."""
        opening = self._opening
        if opening.kind not in (source.RTSP, source.HTTP):
            return
        if took_s >= 0.9 * opening.open_timeout_ms / 1000.0:
            raise Ended("camera.unreachable", "no answer within %.1f s" % took_s)
        try:
            status = probe.status(opening.source, opening.username, opening.password, opening.open_timeout_ms / 1000.0)
        except (OSError, ValueError) as error:
            raise Ended("camera.unreachable", "no connection: %s" % error) from None
        if status in (401, 403):
            missing = "it wants a password" if not opening.username else "it does not take this user name and password"
            raise Ended("camera.wrong_password", "%s (status %d)" % (missing, status))
        if status >= 400:
            raise Ended("camera.unreachable", "the server answers, but not with this stream (status %d)" % status)

    def _next(self):
        started = time.monotonic()
        good, picture = self._capture.read()
        if good and picture is not None:
            return picture
        took_s = time.monotonic() - started
        if took_s >= 0.8 * self._opening.read_timeout_ms / 1000.0:
            raise Ended("camera.stalled", "no frame for %.1f s" % took_s)
        raise Ended("camera.unreachable", "the stream ended")

    def _read_file(self, put):
        pace = 1.0 / _plausible(self._capture.get(cv2.CAP_PROP_FPS))
        due = time.monotonic()
        while True:
            count = 0
            while True:
                time.sleep(max(0.0, due - time.monotonic()))
                good, picture = self._capture.read()
                if not good or picture is None:
                    break
                put(picture)
                put = self._frames.put
                count += 1
                due = max(due + pace, time.monotonic() - _LATE_S)
            if not count:
                raise Ended("camera.unreachable", "the file holds no picture that OpenCV can read")
            if not self._opening.loop:
                raise Ended("camera.ended", "the file is at its end")
            self._rewind()

    def _rewind(self):
        if not self._capture.set(cv2.CAP_PROP_POS_FRAMES, 0):
            self._capture.release()
            self._capture = self._opening.capture("")


def _plausible(fps):
    """What the source says of its rate, if that can be: MJPEG streams and some cameras say anything."""
    return float(fps) if 0.1 <= fps <= _FPS_MOST else _FPS_UNKNOWN
