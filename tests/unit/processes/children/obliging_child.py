"""A child for tests: echoes, writes into slots, prints, hangs and dies as asked."""

import ctypes
import os
import signal
import sys
import time

from edge_agent.engine_host import wire
from edge_agent.engine_host.control import Control, Refused


def _hold_interpreter_lock(message, descriptors):
    ctypes.PyDLL(None).sleep(1000)


def _refuse(message, descriptors):
    raise Refused("test.refused", "not today", need=7)


def _crash(message, descriptors):
    raise KeyError("nothing there")


def _die(message, descriptors):
    sys.stderr.write("last words\n")
    if "signal" in message:
        os.kill(os.getpid(), message["signal"])
    os._exit(message.get("code", 3))


def _say(message, descriptors):
    for number in range(message.get("lines", 1)):
        sys.stdout.write("%s %d\n" % (message["text"], number))
    return {}


def _sleep(message, descriptors):
    time.sleep(message["s"])
    return {"slept": message["s"]}


def _look(message, descriptors):
    """What this process is."""
    with open("/proc/self/comm") as comm, open("/proc/self/oom_score_adj") as score:
        return {
            "comm": comm.read().strip(),
            "oom": int(score.read()),
            "nice": os.nice(0),
            "python": list(sys.version_info[:2]),
            "argv": sys.argv,
            "path": sys.path,
            "has_init": hasattr(sys.modules["edge_agent"], "__version__"),
            "environment": sorted(os.environ),
            "descriptors": len(os.listdir("/proc/self/fd")),
        }


def _die_with_heir(message, descriptors):
    """Ends, but leaves a process that holds every descriptor of this one."""
    if os.fork() == 0:
        time.sleep(1000)
    os._exit(3)


def main(control_socket, args):
    views = wire.SegmentViews()
    control = Control(control_socket, views)

    def fill(message, descriptors):
        views.view(message["segment"], message["offset"], message["nbytes"])[:] = bytes([message["value"]]) * message["nbytes"]

    def read(message, descriptors):
        return {"text": bytes(views.view(message["segment"], message["offset"], message["nbytes"])).decode("latin-1")}

    def echo_channel(message, descriptors):
        os.write(descriptors[0], message["text"].encode())
        os.close(descriptors[0])

    def tell(message, descriptors):
        for number in range(message.get("times", 1)):
            control.event("told", number=number)

    def misbehave(message, descriptors):
        control_socket.send(b"{not json")

    control.handler("echo", lambda message, descriptors: {"text": message["text"]})
    control.handler("hold", _hold_interpreter_lock)
    control.handler("hold_slowly", control.defer(_hold_interpreter_lock))
    control.handler("refuse", _refuse)
    control.handler("crash", _crash)
    control.handler("die", _die)
    control.handler("die_with_heir", _die_with_heir)
    control.handler("say", _say)
    control.handler("sleep", _sleep)
    control.handler("sleep_slowly", control.defer(_sleep))
    control.handler("look", _look)
    control.handler("fill", fill)
    control.handler("read", read)
    control.handler("echo_channel", echo_channel)
    control.handler("tell", tell)
    control.handler("misbehave", misbehave)
    control.handler("close_channel", lambda message, descriptors: control_socket.close())
    control.handler("ignore_sigterm", lambda message, descriptors: signal.signal(signal.SIGTERM, signal.SIG_IGN) and None)
    if "--slow-stop" in args:
        control.at_stop(lambda: time.sleep(1000))
    if "--die-at-start" in args:
        sys.exit("no engine here")
    control.run()
