"""The body child: large JSON and compressed bodies, converted within the arena.

Operations: inflate, deflate, json_to_binary, binary_to_json. Each reads one slot and writes another of the same segment;
what does not fit is refused with the bytes that it needs. The worker of the image child, without its codecs: neither waits
for the other, neither dies of the other.
"""

import contextlib
import os
import resource

from edge_agent.engine_host import wire
from edge_agent.engine_host.control import Control, Refused
from edge_agent.vision_host import codings, json_bodies

_LEAST_MEMORY = 512 << 20


class BodyChild:
    """The operations as handlers for Control."""

    def __init__(self, views):
        self._views = views

    def inflate(self, message, descriptors):
        """Compressed bytes to plain ones, at most `limit` of them."""
        target = self._target(message)
        try:
            codings.inflate(self._source(message), message["coding"], message["limit"], target)
        except codings.BadCoding as error:
            raise Refused("request.invalid", str(error)) from None
        except codings.TooLarge as error:
            raise Refused("request.too_large", str(error)) from None
        return _written(target)

    def deflate(self, message, descriptors):
        """Plain bytes to compressed ones."""
        target = self._target(message)
        codings.deflate(self._source(message), message["coding"], target)
        return _written(target)

    def json_to_binary(self, message, descriptors):
        """A request with tensors as JSON to one with binary tensors, at most `limit` bytes of it."""
        head, blobs = self._converted(
            lambda: json_bodies.to_binary(self._source(message), message.get("header_length"), message.get("hint", ""))
        )
        total = len(head) + sum(map(len, blobs))
        if total > message["limit"]:
            text = "the request body's tensors take %d bytes, over the limit of %d" % (total, message["limit"])
            raise Refused("request.too_large", text)
        return self._placed(message, head, blobs)

    def binary_to_json(self, message, descriptors):
        """An answer with binary outputs to one that has them as JSON, but for those at the positions `binary`."""
        binary = frozenset(message["binary"])
        head, blobs = self._converted(lambda: json_bodies.to_json(self._source(message), message["header_length"], binary))
        return self._placed(message, head, blobs)

    def _source(self, message):
        return self._views.view(message["segment"], message["offset"], message["nbytes"])

    def _target(self, message):
        place = message["target"]
        return codings.Target(self._views.view(message["segment"], place["offset"], place["nbytes"]))

    def _placed(self, message, head, blobs):
        target = self._target(message)
        for part in [head] + blobs:
            target.write(part)
        return dict(_written(target), header_length=len(head))

    @staticmethod
    def _converted(convert):
        try:
            return convert()
        except json_bodies.BadBody as error:
            raise Refused("request.invalid", str(error), id=error.request_id) from None
        except MemoryError:
            raise Refused("request.too_large", "its JSON takes more memory than there is for it: use binary tensors") from None


def _written(target):
    if not target.fits:
        raise Refused("body.no_room", "the result takes %d bytes" % target.written, need=target.written)
    return {"nbytes": target.written}


def bound_memory():
    """A small JSON text can become gigabytes of objects: beyond a quarter of the machine's memory it is refused."""
    allowed = max(_LEAST_MEMORY, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4)
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status") as status:
        used = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData:"))
        resource.setrlimit(resource.RLIMIT_DATA, (used + allowed, resource.RLIM_INFINITY))


def main(control_socket, args):
    """Entry of the child."""
    bound_memory()
    views = wire.SegmentViews()
    control = Control(control_socket, views)
    child = BodyChild(views)
    for op in ("inflate", "deflate", "json_to_binary", "binary_to_json"):
        control.handler(op, control.defer(getattr(child, op)))
    control.run()
