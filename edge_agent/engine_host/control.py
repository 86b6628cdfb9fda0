"""The child's end of its control channel: operations asked by the agent, events told to it.

Python 3.6, standard library only. The calling thread of `run()` reads and answers; operations marked by `defer`
run one after another on a worker thread, so that a ping is answered while a model loads.
"""

import os
import queue
import sys
import threading
import time
import traceback

from edge_agent.engine_host import wire

_GUARD_INTERVAL_S = 1.0
_MAX_DEFERRED = 64
EXIT_ORPHANED = 70


class Refused(Exception):
    """An operation's answer is an error: a stable code, a text for people, JSON details for the caller."""

    def __init__(self, code, text, **detail):
        super().__init__(text)
        self.code = code
        self.text = text
        self.detail = detail


class _Deferred:
    """A handler that runs on the worker thread."""

    def __init__(self, function):
        self.function = function


class Control:
    """Answers operations until the agent says stop or is gone.

    A handler gets (message, descriptors), owns the descriptors, and returns the fields of the reply.
    """

    def __init__(self, sock, views):
        self._sock = sock
        self._views = views
        self._parent = os.getppid()
        self._handlers = {"ping": self._ping, "attach": self._attach, "detach": self._detach}
        self._stoppers = []
        self._sending = threading.Lock()
        self._deferred = queue.Queue(_MAX_DEFERRED)
        self._worker = None
        self._busy = (None, 0.0)

    @staticmethod
    def defer(function):
        """Marks a handler as slow: `control.handler("load", control.defer(load))`."""
        return _Deferred(function)

    def handler(self, op, function):
        """`function` answers `op` from now on."""
        self._handlers[op] = function

    def at_stop(self, function):
        """`function()` runs on the reading thread when the agent asks for a clean end, last registered first."""
        self._stoppers.append(function)

    def event(self, name, **fields):
        """Tells the agent something unasked; from any thread."""
        self._send(dict(fields, event=name))

    def run(self):
        """Serves until EOF or `stop`, then ends the process, whatever its other threads do."""
        guard = threading.Thread(target=self._guard, name="guard")
        guard.daemon = True
        guard.start()
        while True:
            try:
                message, descriptors = wire.receive_control(self._sock)
            except ConnectionResetError:  # the agent went with messages of ours unread
                message = None
            if message is None:
                os._exit(0)
            if message.get("op") == "stop":
                self._stop(message)
            self._take(message, descriptors)

    def _guard(self):
        while os.getppid() == self._parent:
            time.sleep(_GUARD_INTERVAL_S)
        os._exit(EXIT_ORPHANED)

    def _stop(self, message):
        for function in reversed(self._stoppers):
            try:
                function()
            except Exception:  # noqa: BLE001 (the end must go on)
                traceback.print_exc()
        self._send({"id": message.get("id"), "ok": True})
        sys.stdout.flush()
        os._exit(0)

    def _take(self, message, descriptors):
        function = self._handlers.get(message.get("op"))
        if function is None:
            _close(descriptors)
            self._refuse(message, Refused("child.unknown_op", "this child knows no operation %r" % message.get("op")))
        elif isinstance(function, _Deferred):
            self._put_off(function.function, message, descriptors)
        else:
            self._answer(function, message, descriptors)

    def _put_off(self, function, message, descriptors):
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="operations")
            self._worker.daemon = True
            self._worker.start()
        try:
            self._deferred.put_nowait((function, message, descriptors))
        except queue.Full:
            _close(descriptors)
            self._refuse(message, Refused("child.busy", "%d operations wait already" % _MAX_DEFERRED))

    def _work(self):
        while True:
            function, message, descriptors = self._deferred.get()
            self._busy = (message["op"], time.monotonic())
            self._answer(function, message, descriptors)
            self._busy = (None, 0.0)

    def _answer(self, function, message, descriptors):
        try:
            reply = dict(function(message, descriptors) or {}, id=message.get("id"), ok=True)
            self._send(reply)
        except Refused as refusal:
            self._refuse(message, refusal)
        except Exception as error:  # noqa: BLE001 (one bad operation must not end the child)
            traceback.print_exc()
            text = "%s: %s" % (type(error).__name__, error)
            self._refuse(message, Refused("child.crashed_op", "%s failed: %s" % (message.get("op"), text)))

    def _refuse(self, message, refusal):
        error = {"code": refusal.code, "text": refusal.text[:8000], "detail": refusal.detail}
        self._send({"id": message.get("id"), "ok": False, "error": error})

    def _send(self, message):
        try:
            with self._sending:
                wire.send_control(self._sock, message)
        except (BrokenPipeError, ConnectionResetError):  # the agent is gone
            os._exit(0)

    def _ping(self, message, descriptors):
        name, since = self._busy
        return {"busy": name, "busy_s": time.monotonic() - since if name else 0.0}

    def _attach(self, message, descriptors):
        (descriptor,) = descriptors
        self._views.attach(message["segment"], descriptor, message["bytes"], message.get("writable", True))
        return {}

    def _detach(self, message, descriptors):
        self._views.detach(message["segment"])
        return {}


def _close(descriptors):
    for descriptor in descriptors:
        os.close(descriptor)
