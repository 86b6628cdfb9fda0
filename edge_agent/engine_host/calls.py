"""The calls that a Python model makes of other models while it runs: over its own instance's channel."""

import collections
import threading

from edge_agent.engine_host import tensors, wire
from edge_agent.engine_host.failures import ModelFailed

MAX_OPEN = 16  # calls of one instance that are not answered yet; the next one waits
_MINE = (bytes([wire.CALL_ROOM]), bytes([wire.CALL_DONE]))
_LOCAL = threading.local()


class Hangup(Exception):
    """The agent closed the channel."""


def here():
    """The Caller of this thread; ModelFailed where there is none."""
    caller = getattr(_LOCAL, "caller", None)
    if caller is None:
        raise ModelFailed("models are called from the thread that runs execute or infer, while it runs", "UNSUPPORTED")
    return caller


class PendingCall:
    """One call: its inputs' bytes until they are written, then the outputs or an error."""

    def __init__(self, number, flats):
        self.number = number
        self.flats = flats
        self.done = False
        self.version = ""
        self.outputs = []  #: (name, datatype, array)
        self.error = None  #: (text, status)
        self.waker = None  #: an asyncio future that is done with it

    def finish(self, error=None):
        """It is over; who awaits it goes on."""
        self.done, self.error, self.flats = True, error, ()
        if self.waker is not None and not self.waker.done():
            self.waker.set_result(None)


class Caller:
    """Reads the channel of one instance, for the instance and for its calls."""

    def __init__(self, channel, views, aside):
        self._channel = channel
        self._views = views
        self._aside = aside  #: answers what can be answered while a model runs; False: it must wait
        self._backlog = collections.deque()  # the agent sends two batches ahead at most
        self._open = {}
        self._last = 0
        self._loop = None
        self._running = False

    def next(self):
        """The next message for the instance; empty at the end of the channel."""
        if self._backlog:
            return self._backlog.popleft()
        while True:
            data = self._channel.recv(wire.MAX_MESSAGE + 1)
            if not data or not self._is_mine(data):
                return data

    # -- within a batch -----------------------------------------------------------------------------------------------

    def __enter__(self):
        _LOCAL.caller = self
        return self

    def __exit__(self, *_):
        """Calls that nobody waited for are given up."""
        _LOCAL.caller = None
        for pending in list(self._open.values()):
            self._end(pending, ("the batch that called it is over", "CANCELLED"))

    def begin(self, fields, inputs):
        """Asks for a run of another model. `inputs`: (name, datatype, array) each. ModelFailed when it cannot be asked for."""
        while len(self._open) >= MAX_OPEN:
            self.pump()
        flats = [tensors.to_wire(array, datatype) for _, datatype, array in inputs]
        told = [
            {"name": name, "datatype": datatype, "shape": array.shape, "nbytes": flat.nbytes}
            for (name, datatype, array), flat in zip(inputs, flats)
        ]
        self._last += 1
        try:
            message = wire.pack_note(wire.CALL, self._last, dict(fields, inputs=told))
        except (wire.WireError, TypeError) as error:
            raise ModelFailed("the call cannot be passed on: %s" % error, "INVALID_ARG") from error
        pending = self._open[self._last] = PendingCall(self._last, flats)
        self._channel.send(message)
        return pending

    def wait(self, pending):
        """Returns when the call is over."""
        while not pending.done:
            self.pump()

    async def awaited(self, pending):
        """The same, for a coroutine."""
        if not pending.done:
            pending.waker = self._loop.create_future()
            await pending.waker

    @property
    def awaits(self):
        """Whether a coroutine of the model runs, which could await a call."""
        return self._running

    def run(self, coroutine):
        """What the model's coroutine answers; its calls go on meanwhile."""
        import asyncio  # here, since most hosts never need it

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
        self._loop.add_reader(self._channel.fileno(), self._readable)
        self._running = True
        try:
            return self._loop.run_until_complete(coroutine)
        finally:
            self._running = False
            self._loop.remove_reader(self._channel.fileno())

    def close(self):
        """Gives back what `run` took."""
        if self._loop is not None:
            self._loop.close()

    # -- messages -----------------------------------------------------------------------------------------------------

    def pump(self):
        """Takes one message, whatever it is; Hangup at the end of the channel."""
        data = self._channel.recv(wire.MAX_MESSAGE + 1)
        if not data:
            raise Hangup("the agent is gone")
        if not self._is_mine(data) and not self._aside(data):
            self._backlog.append(data)

    def _readable(self):
        try:
            self.pump()
        except (Hangup, OSError) as error:
            self._loop.remove_reader(self._channel.fileno())
            for pending in list(self._open.values()):
                pending.finish((str(error), "CANCELLED"))

    def _is_mine(self, data):
        kind = data[1:2]
        if kind not in _MINE:
            return False
        kind, _, number = wire.message_kind(data)
        pending = self._open.get(number)
        if pending is not None:  # else it was given up, and the agent has been told
            self._take(kind, pending, wire.unpack_note(data))
        return True

    def _take(self, kind, pending, fields):
        if "error" in fields:
            self._end(pending, (fields["error"]["text"], fields["error"].get("status", "")))
            return
        try:
            if kind == wire.CALL_ROOM:
                self._write(pending, fields["places"])
                self._channel.send(wire.pack_note(wire.CALL_GO, pending.number, {}))
                return
            pending.version = fields["version"]
            pending.outputs = [self._read(output) for output in fields["outputs"]]
        except wire.WireError as error:
            self._end(pending, (str(error), "INTERNAL"))
        else:
            self._end(pending, None)

    def _write(self, pending, places):
        for flat, (segment, offset) in zip(pending.flats, places):
            self._views.view(segment, offset, flat.nbytes)[:] = flat.data
        pending.flats = ()

    def _read(self, output):
        view = self._views.view(output["segment"], output["offset"], output["nbytes"])
        array = tensors.from_wire(view, wire.DATATYPE_CODES[output["datatype"]], output["shape"], text=False)
        return output["name"], output["datatype"], array.copy()

    def _end(self, pending, error):
        del self._open[pending.number]
        self._channel.send(wire.pack_note(wire.CALL_FREE, pending.number, {}))
        pending.finish(error)
