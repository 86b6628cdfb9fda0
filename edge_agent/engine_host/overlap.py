"""A model whose next batch is put in place while the present one computes: two threads for one instance.

The instance's thread reads, gathers and begins; a second one waits for the results in order and answers.
"""

import queue
import sys
import threading
import traceback

from edge_agent.engine_host import wire
from edge_agent.engine_host.batch import BatchRunner, failed, now_ns
from edge_agent.engine_host.boot import set_name
from edge_agent.engine_host.failures import shortened
from edge_agent.engine_host.trt.failures import end_process
from edge_agent.engine_host.warm_up import misfit

_MAX_BEGUN = 4  # the engine itself lets two runs be on their way


class _Step:
    """A group of a batch that was begun, or could not be."""

    __slots__ = ("run", "group", "names", "pending", "wrong", "begun", "last")

    def __init__(self, run, group, last):
        self.run = run
        self.group = group
        self.names = ()
        self.pending = None
        self.wrong = ""
        self.begun = 0
        self.last = last  #: the batch is complete with it


class OverlappedRunner(BatchRunner):
    """Begins batches on one thread, finishes them on another, in the same order."""

    def __init__(self, model, views):
        super().__init__(model, views)
        self._finished_at = 0

    def begin(self, data, hand_over):
        """Begins an EXECUTE message; `hand_over(step)` for each of its groups, which `finish` then takes."""
        _, count, batch = wire.message_kind(data)
        run, groups = self._read(data, count, batch)
        for place, group in enumerate(groups):
            step = _Step(run, group, place == len(groups) - 1)
            self._begin_group(step)
            hand_over(step)
        if not groups:
            hand_over(_Step(run, [], True))

    def _begin_group(self, step):
        started = now_ns()
        try:
            step.names = self._wanted_names(step.group)
            step.pending = self._model.engine.begin(step.names, self._gatherer.parts(step.group))
        except Exception as error:  # noqa: BLE001 - the engine's own classes; a bad batch must not end the thread
            step.wrong = error
        step.begun = now_ns()
        step.run.input_ns += step.begun - started

    def finish(self, step):
        """Waits for a step; the messages that answer its batch when it is the last one."""
        if step.pending is not None:
            with step.pending as pending:
                self._finish_group(step, pending)
        elif step.group:
            for member in step.group:
                step.run.answers[member.number] = failed(member.number, step.wrong)
        return step.run.messages() if step.last else ()

    def _finish_group(self, step, pending):
        run, rows = step.run, sum(member.request.rows for member in step.group)
        try:
            outputs = dict(zip(step.names, pending.result()))
            wrong = misfit(outputs, rows) if self._model.batched else ""
        except Exception as error:  # noqa: BLE001 - as above
            outputs, wrong = {}, error
        done = now_ns()
        run.rows += rows
        run.infer_ns += done - max(step.begun, self._finished_at)  # before that, the one ahead of it ran
        self._finished_at = done
        self._answer_group(run, step.group, outputs, wrong, False)  # the outputs lie in the engine's own memory
        run.output_ns += now_ns() - done


class OverlappedService:
    """A loaded model at work, with a thread that answers."""

    def __init__(self, model, channel, views):
        self._model = model
        self._channel = channel
        self._runner = OverlappedRunner(model, views)
        self._begun = queue.Queue(_MAX_BEGUN)  # full: the reading thread waits, as the agent sends two batches at most
        self._answering = threading.Thread(target=self._answer_all, name=threading.current_thread().name + "-answers")
        self._answering.daemon = True

    def run(self):
        """Until the channel ends."""
        self._answering.start()
        try:
            while True:
                data = self._channel.recv(wire.MAX_MESSAGE + 1)
                if not data:
                    return
                self._take(data)
        except OSError:
            return  # the agent closed its end: nobody waits for answers
        finally:
            self._begun.put(None)
            self._answering.join()  # what was begun ends before its memory goes
            self._model.engine.close()

    def _take(self, data):
        """A message that cannot be understood must not take the other requests' thread with it."""
        try:
            if wire.message_kind(data)[0] == wire.EXECUTE:
                self._runner.begin(data, self._begun.put)
                return
            messages = self._runner.handle(data)
        except Exception:  # noqa: BLE001 - the thread's runner
            _told()
            return
        for message in messages:
            self._channel.send(message)

    def _answer_all(self):
        """The reading thread would wait for this one for ever, and with it all that was asked: it may not end early."""
        set_name(self._model.name)
        try:
            self._model.engine.enter()
            for step in iter(self._begun.get, None):
                self._answer(step)
            self._model.engine.leave()
        except BaseException as error:  # noqa: BLE001 - the thread's runner
            _told()
            end_process("%s: its answers end: %s: %s" % (self._model.name, type(error).__name__, shortened(error)))

    def _answer(self, step):
        try:
            messages = self._runner.finish(step)
        except Exception:  # noqa: BLE001 - the thread's runner
            _told()
            return
        try:
            for message in messages:
                self._channel.send(message)
        except OSError:
            return  # the agent closed its end; the reading thread ends by it


def _told():
    traceback.print_exc()
    sys.stderr.flush()
