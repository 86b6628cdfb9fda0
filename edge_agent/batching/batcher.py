"""The dynamic batcher: where a batch is made. One per model version, on the loop."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Callable, Hashable, List, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.batching.instance import Instance
from edge_agent.batching.policy import BatchPolicy, decide
from edge_agent.batching.queue import Pending, RequestQueue
from edge_agent.batching.service_time import ServiceTime
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse, Timing
from edge_agent.engines.batch import Answer, Batch, Outcome, Ran

#: the next batch is handed over this long before the running one is expected to end: what a turn-around costs
_TURNAROUND_S = 0.001
#: how long a request that lost its host waits for it to come back
_RETRY_WINDOW_S = 10.0
_DEPTH = 2  #: batches that a host may hold of one instance: the running one and the next


@dataclass(eq=False)
class _Lane:
    """One instance with what was handed to it."""

    instance: Instance
    batches: List[Batch[Pending]] = field(default_factory=list)
    started_at: float = 0.0  #: of the batch that runs
    expected_end: float = 0.0


class DynamicBatcher:
    """Collects requests, sends batches, ends every request exactly once."""

    def __init__(
        self,
        model: str,
        version: str,
        policy: BatchPolicy,
        clock: Clock,
        on_batch: Callable[[int, str], None] = lambda rows, reason: None,
        on_lone_death: Callable[[], None] = lambda: None,
    ) -> None:
        self.model = model
        self.version = version
        self.policy = policy
        self.queue = RequestQueue(policy.max_queue_size)
        self.service_time = ServiceTime()
        self._clock = clock
        self._on_batch = on_batch
        self._on_lone_death = on_lone_death
        self._lanes: List[_Lane] = []
        self._timer: Optional[asyncio.TimerHandle] = None
        self._timer_at = 0.0
        self._closed: Optional[errors.EdgeAgentError] = None

    def use(self, instances: Sequence[Instance]) -> None:
        """Sets the instances that run this model's batches."""
        self._lanes = [_Lane(instance) for instance in instances]

    # -- requests ---------------------------------------------------------------------------------------------------

    async def submit(self, request: InferRequest, rows: int, key: Hashable, deadline: Optional[float]) -> InferResponse:
        """Runs one request in some batch. Cancelling it leaves the others of its batch alone."""
        if self._closed is not None:
            raise self._closed
        if rows > self.policy.max_batch_size:
            raise errors.TensorMismatch(
                "inference request batch-size must be <= %d for '%s', got %d" % (self.policy.max_batch_size, self.model, rows)
            )
        pending = Pending(request, rows, key, asyncio.get_running_loop().create_future(), self._clock.monotonic(), deadline)
        self.queue.push(pending)
        self._pump()
        try:
            response: InferResponse = await pending.future
        except asyncio.CancelledError:
            pending.give_back()
            raise
        return response

    def close(self, error: errors.EdgeAgentError) -> None:
        """No new requests; those that wait end with `error`, those that run end by themselves."""
        self._closed = error
        for pending in self.queue.clear():
            pending.fail(error)
        if self._timer is not None:
            self._timer.cancel()

    @property
    def pending(self) -> int:
        """Requests that wait."""
        return len(self.queue)

    @property
    def in_flight(self) -> int:
        """Batches that a host holds."""
        return sum(len(lane.batches) for lane in self._lanes)

    def room_at(self, now: float) -> float:
        """When one more request would begin to run, monotonic seconds; `now` when an instance idles."""
        up = [lane for lane in self._lanes if lane.instance.up]
        if not up or (not self.queue.next_waiting() and any(not lane.batches for lane in up)):
            return now
        waiting = self.service_time.expect(self.policy.max_batch_size) or 0.0
        ahead = len(self.queue) // self.policy.max_batch_size * waiting / len(up)
        return max(now, min(self._lane_end(lane, now) for lane in up) + ahead)

    def _lane_end(self, lane: _Lane, now: float) -> float:
        if not lane.batches:
            return now
        later = sum(self.service_time.expect(batch.rows) or 0.0 for batch in lane.batches[1:])
        return lane.expected_end + later

    # -- batches ----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Sends what can be sent now, then sets the one timer for whatever comes next."""
        now = self._clock.monotonic()
        for late in self.queue.expired(now):
            late.fail(self._too_late(late))
        wake = self.queue.next_deadline()
        while True:
            lane, free_at = self._next_lane(now)
            if lane is None:
                break
            if free_at > now:
                if self.queue.next_waiting():
                    wake = free_at if wake is None else min(wake, free_at)
                break
            batch, wait_until = self._next_batch(lane.instance, now)
            if batch is None:
                if wait_until is not None:
                    wake = wait_until if wake is None else min(wake, wait_until)
                break
            self._send(lane, batch)
        self._set_timer(wake)

    def _next_lane(self, now: float) -> Tuple[Optional[_Lane], float]:
        """The instance that takes the next batch soonest, and from when; None when none will by itself."""
        best: Optional[_Lane] = None
        best_at = 0.0
        for lane in self._lanes:
            if not lane.instance.up or len(lane.batches) >= _DEPTH:
                continue
            at = now if not lane.batches else max(now, lane.expected_end - _TURNAROUND_S)
            if best is None or (at, len(lane.batches)) < (best_at, len(best.batches)):
                best, best_at = lane, at
        return best, best_at

    def _next_batch(self, instance: Instance, now: float) -> Tuple[Optional[Batch[Pending]], Optional[float]]:
        retry = self.queue.retry()
        if retry is not None:
            if instance.may_run_alone():
                self.queue.take([retry])
                return Batch[Pending]([retry], "retry", now), None
            if not instance.up:
                return None, None  # the host is let run empty for it
        group = self.queue.oldest_group(self.policy.max_batch_size + 1)
        if group is None:
            return None, None
        others = self.policy.max_queue_delay_s > 0 and self.queue.has_others(group[0].key)
        decision = decide(self.policy, [item.rows for item in group], group[0].enqueued_at, now, others)
        if not decision.take:
            return None, decision.wait_until
        items = group[: decision.take]
        self.queue.take(items)
        return Batch[Pending](items, decision.reason, now), None

    def _send(self, lane: _Lane, batch: Batch[Pending]) -> None:
        for item in batch.items:
            item.sent_at = batch.sent_at
        lane.batches.append(batch)
        if len(lane.batches) == 1:
            self._begin(lane, batch.sent_at)
        self._on_batch(batch.rows, batch.reason)
        lane.instance.send(batch, _LaneOwner(self, lane))

    def _begin(self, lane: _Lane, now: float) -> None:
        expected = self.service_time.expect(lane.batches[0].rows)
        lane.started_at = now
        lane.expected_end = now + (float("inf") if expected is None else expected)

    def _set_timer(self, at: Optional[float]) -> None:
        if self._timer is not None:
            if at == self._timer_at and not self._timer.cancelled():
                return
            self._timer.cancel()
            self._timer = None
        if at is not None and at != float("inf"):
            delay = max(0.0, at - self._clock.monotonic())
            self._timer_at = at
            self._timer = asyncio.get_running_loop().call_later(delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._pump()

    # -- ends -------------------------------------------------------------------------------------------------------

    def finished(self, lane: _Lane, batch: Batch[Pending], ran: Ran) -> None:
        """A batch ran: answers its requests, learns its time, sends the next."""
        now = self._clock.monotonic()
        self.service_time.learn(batch.rows, now - lane.started_at)
        self._remove(lane, batch, now)
        for item, answer in zip(batch.items, batch.answers):
            self._answer(item, answer, batch, ran, now)
        self._pump()

    def _remove(self, lane: _Lane, batch: Batch[Pending], now: float) -> None:
        lane.batches.remove(batch)
        if lane.batches:
            self._begin(lane, now)

    def _answer(self, item: Pending, answer: Optional[Answer], batch: Batch[Pending], ran: Ran, now: float) -> None:
        if item.ended:
            _release(answer)
        elif isinstance(answer, Outcome):
            item.future.set_result(self._response(item, answer, batch, ran, now))
        elif isinstance(answer, BaseException):
            item.fail(answer)
        else:
            item.fail(errors.ExecutionError("the host gave no answer for this request of model '%s'" % self.model))

    def _response(self, item: Pending, outcome: Outcome, batch: Batch[Pending], ran: Ran, now: float) -> InferResponse:
        total = now - item.enqueued_at
        compute = ran.input_s + ran.infer_s + ran.output_s
        timing = Timing(
            queue_us=max(0, int((total - compute) * 1e6)),
            input_us=int(ran.input_s * 1e6),
            infer_us=int(ran.infer_s * 1e6),
            output_us=int(ran.output_s * 1e6),
            total_us=int(total * 1e6),
        )
        request = item.request
        return InferResponse(
            self.model, self.version, request.id, outcome.outputs, outcome.detections, timing, batch.rows, outcome.kept
        )

    def lost(self, lane: _Lane, batch: Batch[Pending], reason: str, suspect: bool = True) -> None:
        """The host ended with this batch in it: answered places stand, the others are tried once more, alone."""
        now = self._clock.monotonic()
        self._remove(lane, batch, now)
        for item, answer in zip(batch.items, batch.answers):
            if answer is not None:
                self._answer(item, answer, batch, Ran(0.0, 0.0, 0.0), now)
            elif not item.ended:
                self._retry(item, reason, now, suspect)
        self._pump()

    def _retry(self, item: Pending, reason: str, now: float, suspect: bool) -> None:
        """Once alone, and again only as long as the host's end was not its doing."""
        if self._closed is not None:
            item.fail(self._closed)
        elif item.retried and suspect:
            text = "the engine host of model '%s' ended while it ran this request alone: %s"
            item.fail(errors.HostDied(text % (self.model, reason)))
            self._on_lone_death()
        else:
            if not item.retried:
                window = now + _RETRY_WINDOW_S
                item.deadline = window if item.deadline is None else min(item.deadline, window)
            item.retried = True
            item.sent_at = 0.0
            self.queue.push_retry(item)

    def room(self) -> None:
        """An instance came up."""
        self._pump()

    def _too_late(self, item: Pending) -> errors.EdgeAgentError:
        if item.retried:
            return errors.ModelNotReady("the engine host of model '%s' ended and did not come back in time" % self.model)
        waited = self._clock.monotonic() - item.enqueued_at
        return errors.DeadlineExceeded("Request timeout expired: waited %.0f ms for model '%s'" % (waited * 1e3, self.model))


class _LaneOwner:
    """Tells the batcher which lane a batch was in."""

    def __init__(self, batcher: DynamicBatcher, lane: _Lane) -> None:
        self._batcher = batcher
        self._lane = lane

    def finished(self, batch: Batch[Pending], ran: Ran) -> None:
        """See BatchOwner."""
        self._batcher.finished(self._lane, batch, ran)

    def lost(self, batch: Batch[Pending], reason: str, suspect: bool = True) -> None:
        """See BatchOwner."""
        self._batcher.lost(self._lane, batch, reason, suspect)


def _release(answer: Optional[Answer]) -> None:
    if isinstance(answer, Outcome):
        for lease in answer.kept:
            lease.release()
