"""The camera child: drains one camera, and puts its newest frame into the arena when asked.

Operations: open, fill, encode, drop, status. Events: opened, alive (with the first frame, then regularly), closed.
"""

import threading
import time

from edge_agent.vision_host import source  # isort: skip  (sets what cv2 reads at its import)

import cv2
import numpy

from edge_agent.engine_host import wire
from edge_agent.engine_host.control import Control, Refused
from edge_agent.vision_host import drawing, preprocess
from edge_agent.vision_host.frames import Frames
from edge_agent.vision_host.instant import monotonic_ns, since_us
from edge_agent.vision_host.reader import Reader

ALIVE_EVERY_S = 1.0


class CameraChild:
    """The operations, each a handler for Control."""

    def __init__(self, views, event):
        self._views = views
        self._event = event
        self._frames = Frames()
        self._targets = preprocess.Targets()
        self._reader = None
        self._alive_every_s = ALIVE_EVERY_S

    def open(self, message, descriptors):
        """Starts to read a source; how that goes is told by events."""
        if self._reader is not None and self._reader.reading:
            raise Refused("child.busy", "a source is open already")
        try:
            opening = source.Opening(message)
        except source.Unsupported as error:
            raise Refused("camera.unsupported", str(error)) from None
        self._alive_every_s = message.get("alive_every_ms", 1000 * ALIVE_EVERY_S) / 1000.0
        self._frames.begin(message.get("sequence", 0))
        self._reader = Reader(opening, self._frames, self._event)
        self._reader.start()
        return {}

    def fill(self, message, descriptors):
        """The newest frame, prepared, into the slot."""
        try:
            target = self._targets.get(message["preprocess"])
        except preprocess.BadTarget as error:
            raise Refused("request.invalid", str(error)) from None
        if message["nbytes"] < target.nbytes:
            raise Refused("image.no_room", "the input takes %d bytes" % target.nbytes, need=target.nbytes)
        frame = self._frames.newer(message.get("newer_than", 0), message.get("wait_ms", 0) / 1000.0)
        if frame is None:
            raise Refused("camera.no_frame", "the camera gave no new frame in time")
        started = monotonic_ns()
        memory = self._views.view(message["segment"], message["offset"], target.nbytes)
        geometry = target.write(frame.picture, memory)
        skipped = self._frames.keep(frame)
        return dict(
            geometry.as_json(), sequence=frame.sequence, captured_ns=frame.captured_ns, decode_us=0,
            fill_us=since_us(started), skipped=skipped,
        )  # fmt: skip

    def encode(self, message, descriptors):
        """A kept frame (the newest for sequence 0) as JPEG into the slot."""
        frame = self._frames.kept(message["sequence"])
        if frame is None:
            raise Refused("camera.frame_gone", "frame %d is not kept any more" % message["sequence"])
        data = drawing.jpeg(frame.picture, message.get("quality", 85), message.get("boxes") or ())
        if data is None:
            raise Refused("camera.frame_gone", "the frame cannot be made a JPEG")
        if data.size > message["nbytes"]:
            raise Refused("image.no_room", "the JPEG takes %d bytes" % data.size, need=int(data.size))
        memory = self._views.view(message["segment"], message["offset"], data.size)
        numpy.frombuffer(memory, dtype=numpy.uint8)[:] = data
        return {"nbytes": int(data.size), "width": frame.picture.shape[1], "height": frame.picture.shape[0]}

    def drop(self, message, descriptors):
        """Forgets a kept frame."""
        self._frames.drop(message["sequence"])

    def status(self, message, descriptors):
        """The signs of life, now."""
        return self._frames.signs()

    def tell_alive(self):
        """The thread that repeats the signs of life, so that silence means something."""
        try:
            while True:
                time.sleep(self._alive_every_s)
                if self._reader is not None and self._reader.reading:
                    self._event("alive", **self._frames.signs())
        except OSError:
            return  # the agent is gone, and this process with it in a moment


def main(control_socket, args):
    """Entry of the child."""
    cv2.setNumThreads(1)
    views = wire.SegmentViews()
    control = Control(control_socket, views)
    child = CameraChild(views, control.event)
    control.handler("open", child.open)
    control.handler("drop", child.drop)
    control.handler("status", child.status)
    control.handler("fill", control.defer(child.fill))
    control.handler("encode", control.defer(child.encode))
    alive = threading.Thread(target=child.tell_alive, name="alive")
    alive.daemon = True
    alive.start()
    control.run()
