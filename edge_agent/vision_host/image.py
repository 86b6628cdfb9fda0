"""The image child: picture bytes that came from outside, decoded and prepared within the arena.

Operation: prepare. A picture that ends this process ends nothing else.
"""

import cv2

from edge_agent.engine_host import wire
from edge_agent.engine_host.control import Control, Refused
from edge_agent.vision_host import decode, preprocess
from edge_agent.vision_host.headers import BadPicture
from edge_agent.vision_host.instant import monotonic_ns, since_us


class ImageChild:
    """The operation as a handler for Control."""

    def __init__(self, views):
        self._views = views
        self._targets = preprocess.Targets()
        self._sequence = 0

    def prepare(self, message, descriptors):
        """Bytes of one slot to a model's input in another slot of the same segment."""
        received = monotonic_ns()
        place = message["target"]
        try:
            target = self._targets.get(place["preprocess"])
        except preprocess.BadTarget as error:
            raise Refused("request.invalid", str(error)) from None
        if place["nbytes"] < target.nbytes:
            raise Refused("image.no_room", "the input takes %d bytes" % target.nbytes, need=target.nbytes)
        try:
            data = bytes(self._views.view(message["segment"], message["offset"], message["nbytes"]))
            picture = decode.decode(data, message.get("max_pixels", decode.MAX_PIXELS))
        except BadPicture as error:
            raise Refused(error.code, error.text) from None
        decode_us = since_us(received)
        started = monotonic_ns()
        geometry = target.write(picture, self._views.view(message["segment"], place["offset"], target.nbytes))
        self._sequence += 1
        return dict(
            geometry.as_json(), sequence=self._sequence, captured_ns=received, decode_us=decode_us, fill_us=since_us(started)
        )


def main(control_socket, args):
    """Entry of the child."""
    cv2.setNumThreads(1)
    views = wire.SegmentViews()
    control = Control(control_socket, views)
    control.handler("prepare", control.defer(ImageChild(views).prepare))
    control.run()
