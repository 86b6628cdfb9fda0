"""One instance of a model: a thread that loads it, reads its own channel, runs what comes and answers."""

import contextlib
import queue
import socket
import sys
import threading
import traceback

from edge_agent.engine_host import wire
from edge_agent.engine_host.batch import BatchRunner
from edge_agent.engine_host.boot import set_name
from edge_agent.engine_host.calls import Caller
from edge_agent.engine_host.overlap import OverlappedService


class Instance:
    """The thread that alone makes, runs and frees the model. It ends when its channel does."""

    def __init__(self, number, name, load, channel, views):
        self._name = name
        self._load = load  #: () -> (model, fields of the reply)
        self._channel = channel
        self._views = views
        self._loaded = queue.Queue(1)
        self._thread = threading.Thread(target=self._live, name="instance-%d" % number)
        self._thread.daemon = True

    def load(self):
        """Begins to load, then to read; the fields of the reply, or what loading raised."""
        self._thread.start()
        outcome = self._loaded.get()
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    @property
    def alive(self):
        """Whether its thread still reads; False once its channel has ended."""
        return self._thread.is_alive()

    def end(self, timeout_s):
        """Ends the thread after the batch that runs; False when it still runs then."""
        with contextlib.suppress(OSError):  # the other end is gone or the thread has closed it already
            self._channel.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _live(self):
        with contextlib.closing(self._channel):
            try:
                model, reply = self._load()
            except BaseException as error:  # noqa: BLE001 - raised in `load`, where somebody waits
                self._channel.close()
                self._loaded.put(error)
                return
            finally:
                self._load = None
            set_name(self._name)  # not before: threads that a library makes for the whole process would bear it
            self._loaded.put(reply)
            service = OverlappedService if getattr(model.engine, "overlaps", False) else _Service
            service(model, self._channel, self._views).run()


class _Service:
    """A loaded model at work."""

    def __init__(self, model, channel, views):
        self._model = model
        self._channel = channel
        self._runner = BatchRunner(model, views)
        self._caller = Caller(channel, views, self._aside)

    def run(self):
        """Until the channel ends."""
        try:
            while True:
                data = self._caller.next()
                if not data:
                    return
                with self._caller:
                    self._answer(data)
        except OSError:
            return  # the agent closed its end: nobody waits for answers
        finally:
            self._caller.close()
            self._model.engine.close()

    def _aside(self, data):
        """Answers what concerns an earlier batch, in the midst of another; False for what must wait."""
        if wire.message_kind(data)[0] not in (wire.ROOM, wire.DROP):
            return False
        self._answer(data)
        return True

    def _answer(self, data):
        """A message that cannot be understood must not take the other requests' thread with it."""
        try:
            messages = self._runner.handle(data)
        except Exception:  # noqa: BLE001 - the thread's runner
            traceback.print_exc()
            sys.stderr.flush()
            return
        for message in messages:
            self._channel.send(message)
