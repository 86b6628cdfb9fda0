"""One instance of a model: a thread that reads its own channel, runs what comes and answers."""

import contextlib
import socket
import sys
import threading
import traceback

from edge_agent.engine_host import wire
from edge_agent.engine_host.batch import BatchRunner
from edge_agent.engine_host.boot import set_name


class Instance:
    """The thread that alone runs the model. It ends when its channel does."""

    def __init__(self, number, model, channel, views):
        self._number = number
        self._model = model
        self._channel = channel
        self._views = views
        self._thread = None

    def start(self):
        """Begins to read."""
        self._thread = threading.Thread(target=self._serve, name="instance-%d" % self._number)
        self._thread.daemon = True
        self._thread.start()

    @property
    def alive(self):
        """Whether its thread still reads; False once its channel has ended."""
        return self._thread is not None and self._thread.is_alive()

    def end(self, timeout_s):
        """Ends the thread after the batch that runs; False when it still runs then."""
        with contextlib.suppress(OSError):  # the other end is gone or the thread has closed it already
            self._channel.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _serve(self):
        set_name(self._model.name)
        runner = BatchRunner(self._model, self._views)
        # The thread alone holds the engine from here on, so that it is freed with the thread's end.
        self._model = self._views = None
        try:
            while True:
                data = self._channel.recv(wire.MAX_MESSAGE + 1)
                if not data:
                    return
                for message in self._answers(runner, data):
                    self._channel.send(message)
        except OSError:
            return  # the agent closed its end: nobody waits for answers
        finally:
            self._channel.close()

    @staticmethod
    def _answers(runner, data):
        """Never raises: a message that cannot be understood must not take the other requests' thread with it."""
        try:
            return runner.handle(data)
        except Exception:  # noqa: BLE001 - the thread's runner
            traceback.print_exc()
            sys.stderr.flush()
            return []
