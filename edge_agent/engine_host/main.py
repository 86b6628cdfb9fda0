"""The engine host: a child process that loads models and runs them, one thread an instance."""

import socket
import time

from edge_agent.engine_host import wire
from edge_agent.engine_host.control import Control, Refused
from edge_agent.engine_host.failures import LoadError
from edge_agent.engine_host.instance import Instance
from edge_agent.engine_host.model import load

_UNLOAD_WAIT_S = 5.0


def facts(message, descriptors):
    """What there is of TensorRT here; it never fails."""
    from edge_agent.engine_host.trt import library  # here, since most hosts never need it

    return library.facts()


class Host:
    """The instances of this process, by number."""

    def __init__(self, views):
        self._views = views
        self._instances = {}

    def load(self, message, descriptors):
        """Loads a model for the instance whose channel comes as the descriptor."""
        if len(descriptors) != 1:
            raise Refused(
                "model.load_failed", "a load needs one descriptor, the instance's channel; %d came" % len(descriptors)
            )
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=descriptors[0])
        channel.setblocking(True)
        number = message["instance"]
        if number in self._instances and self._instances[number].alive:
            channel.close()
            raise Refused("model.load_failed", "instance %d is loaded already" % number)
        name = "%s/%s" % (message["model"], message["version"])
        instance = Instance(number, name, lambda: load(message), channel, self._views)
        try:
            reply = instance.load()
        except LoadError as error:
            refused = Refused("model.load_failed", str(error))
            refused.detail = error.detail  # it may have a code of its own
            raise refused from error
        self._instances[number] = instance
        return reply

    def unload(self, message, descriptors):
        """Ends an instance and frees its engine; one that is gone already is fine."""
        instance = self._instances.get(message["instance"])
        if instance is None:
            return {}
        started = time.monotonic()
        if not instance.end(_UNLOAD_WAIT_S):
            text = "instance %d still runs a batch after %.1f s" % (message["instance"], time.monotonic() - started)
            raise Refused("model.busy", text)
        del self._instances[message["instance"]]
        return {}


def main(control_socket, args):
    """Serves until the agent says stop or is gone."""
    views = wire.SegmentViews()
    control = Control(control_socket, views)
    host = Host(views)
    control.handler("facts", control.defer(facts))
    control.handler("load", control.defer(host.load))
    control.handler("unload", control.defer(host.unload))
    control.run()
