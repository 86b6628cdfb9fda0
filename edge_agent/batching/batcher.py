"""The dynamic batcher: where a batch is made. One per model version, on the loop."""

from __future__ import annotations

import asyncio
from typing import Callable, Hashable, List, Optional, Sequence, Tuple

from edge_agent import errors
from edge_agent.batching.alarm import Alarm
from edge_agent.batching.arrival import ArrivalOrder
from edge_agent.batching.decision import Decision, decide
from edge_agent.batching.instance import Instance
from edge_agent.batching.lane import Lane, Lanes
from edge_agent.batching.pending import Pending
from edge_agent.batching.policy import BatchPolicy
from edge_agent.batching.queue import RequestQueue
from edge_agent.batching.response import release, response_of
from edge_agent.batching.service_time import ServiceTime
from edge_agent.domain.clock import Clock
from edge_agent.domain.requests import InferRequest, InferResponse
from edge_agent.engines.batch import Answer, Batch, Outcome, Ran

#: how long a request that lost its host waits for it to come back
_RETRY_WINDOW_S = 10.0
_NEVER = float("inf")


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
        on_ran: Callable[[int, Ran], None] = lambda rows, ran: None,
    ) -> None:
        self.model = model
        self.version = version
        self.policy = policy
        self.queue = RequestQueue(policy)
        self.service_time = ServiceTime()
        self._clock = clock
        self._on_batch = on_batch
        self._on_lone_death = on_lone_death
        self._on_ran = on_ran
        self._order = ArrivalOrder(policy.preserve_ordering)
        self._lanes = Lanes((), self.service_time)
        self._alarm = Alarm(clock, self._pump)
        self._closed: Optional[errors.EdgeAgentError] = None
        self._drained: List[asyncio.Future[None]] = []

    def use(self, instances: Sequence[Instance]) -> None:
        """Sets the instances that run this model's batches."""
        self._lanes = Lanes(instances, self.service_time)

    # -- requests ---------------------------------------------------------------------------------------------------

    async def submit(self, request: InferRequest, rows: int, key: Hashable, deadline: Optional[float] = None) -> InferResponse:
        """Runs one request in some batch. Cancelling it leaves the others of its batch alone.

        Args:
            request: its priority and timeout count as far as the policy allows.
            rows: its share of a batch.
            key: requests of equal keys may share a batch.
            deadline: monotonic second after which the caller does not want the answer.
        """
        if self._closed is not None:
            raise self._closed
        if rows > self.policy.max_batch_size:
            raise errors.TensorMismatch(
                "inference request batch-size must be <= %d for '%s', got %d" % (self.policy.max_batch_size, self.model, rows)
            )
        pending = self._enqueued(request, rows, key, deadline)
        self._pump()
        try:
            response: InferResponse = await pending.future
        except asyncio.CancelledError:
            self._left(pending)
            raise
        return response

    def _enqueued(self, request: InferRequest, rows: int, key: Hashable, deadline: Optional[float]) -> Pending:
        now = self._clock.monotonic()
        pending = Pending(request, rows, key, asyncio.get_running_loop().create_future(), now, deadline)
        pending.level = self.policy.level_of(request.priority)
        self._set_times(pending, deadline)
        self.queue.push(pending)
        self._order.enter(pending)
        return pending

    def _set_times(self, pending: Pending, wanted_until: Optional[float]) -> None:
        """The queue policy's timeout is a wait; the caller's deadline is for the answer, so running counts too."""
        policy = self.policy.queue_policy(pending.level)
        wait_s = policy.wait_s(pending.request.timeout_us)
        timeout_at = _NEVER if wait_s is None else pending.enqueued_at + wait_s
        ends_at = _NEVER if wanted_until is None else wanted_until
        pending.send_by = min(timeout_at, ends_at - (self.service_time.expect(pending.rows) or 0.0))
        if policy.delays and wait_s is not None:
            pending.defer_at = timeout_at
        else:
            ends_at = min(ends_at, timeout_at)
        pending.deadline = None if ends_at == _NEVER else ends_at

    def _left(self, pending: Pending) -> None:
        """Its caller is gone: its place is free, and nobody waits for its answer."""
        pending.give_back()
        self.queue.remove(pending)
        self._order.leave(pending)
        self._pump()

    def close(self, error: errors.EdgeAgentError) -> None:
        """No new requests; those that wait end with `error`, those that run end by themselves."""
        self._closed = error
        for pending in self.queue.clear():
            self._refuse(pending, error)
        self._pump()

    async def drain(self) -> None:
        """Returns when nothing waits or runs any more; give it a limit. New requests are refused by close(), not by this."""
        while not self.idle:
            drained = asyncio.get_running_loop().create_future()
            self._drained.append(drained)
            await drained

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return not self.queue and not self.in_flight

    @property
    def pending(self) -> int:
        """Requests that wait."""
        return len(self.queue)

    @property
    def in_flight(self) -> int:
        """Batches that a host holds."""
        return self._lanes.in_flight

    def room_at(self, now: float) -> float:
        """When one more request would begin to run, monotonic seconds; `now` when an instance idles."""
        return self._lanes.free_at(now, len(self.queue), self.policy.max_batch_size)

    def room(self) -> None:
        """An instance came up."""
        self._pump()

    # -- batches ----------------------------------------------------------------------------------------------------

    def _pump(self) -> None:
        """Sends what can be sent now, then sets the one timer for whatever comes next."""
        now = self._clock.monotonic()
        for late in self.queue.expired(now):
            self._refuse(late, self._too_late(late, now))
        wake = self._send_all(now)
        deadline = self.queue.next_deadline()
        self._alarm.set(wake if deadline is None else min(wake, deadline))
        if self._drained and self.idle:
            drained, self._drained = self._drained, []
            for waiter in drained:
                if not waiter.done():
                    waiter.set_result(None)

    def _send_all(self, now: float) -> float:
        """Sends what can be sent; answers when to look again."""
        while self.queue:
            full = len(self.queue) >= self.policy.max_batch_size
            lane, free_at = self._lanes.next(now, full, self._may_hand_over_ahead())
            if lane is None:
                return _NEVER
            if free_at > now:
                return free_at
            batch, wait_until = self._next_batch(lane.instance, now)
            if batch is None:
                return _NEVER if wait_until is None else wait_until
            self._lanes.add(lane, batch)
            self._on_batch(batch.rows, batch.reason)
            lane.instance.send(batch, _LaneOwner(self, lane))
        return _NEVER

    def _may_hand_over_ahead(self) -> bool:
        """Not where somebody waits with a deadline, or requests may overtake: they stay here until an instance idles."""
        return self.policy.priority_levels <= 1 and self.queue.next_deadline() is None

    def _next_batch(self, instance: Instance, now: float) -> Tuple[Optional[Batch[Pending]], Optional[float]]:
        retry = self.queue.retry()
        if retry is not None:
            if instance.may_run_alone():
                self.queue.remove(retry)
                return Batch[Pending]([retry], "retry", now), None
            if not instance.up:
                return None, None  # the host is let run empty for it
        group = self.queue.first_group(self.policy.max_batch_size + 1)
        if not group:
            return None, None
        decision = self._decide(group, now)
        if not decision.take:
            return None, decision.wait_until
        items = group[: decision.take]
        self.queue.take(items)
        return Batch[Pending](items, decision.reason, now), None

    def _decide(self, group: List[Pending], now: float) -> Decision:
        rows = [item.rows for item in group]
        if self.policy.max_queue_delay_s <= 0:
            return decide(self.policy, rows, now, now)
        oldest_at = min(item.enqueued_at for item in group)
        send_by = min(item.send_by for item in group)
        return decide(self.policy, rows, oldest_at, now, self.queue.has_others(group[0].key), send_by)

    # -- ends -------------------------------------------------------------------------------------------------------

    def finished(self, lane: Lane, batch: Batch[Pending], ran: Ran) -> None:
        """A batch ran: answers its requests, learns its time, sends the next."""
        now = self._clock.monotonic()
        self.service_time.learn(batch.rows, now - lane.started_at)
        self._lanes.remove(lane, batch, now)
        self._on_ran(batch.rows, ran)
        for item, answer in zip(batch.items, batch.answers):
            self._answer(item, answer, batch, ran)
        self._pump()

    def _answer(self, item: Pending, answer: Optional[Answer], batch: Batch[Pending], ran: Ran) -> None:
        if item.ended:
            release(answer)
        else:
            self._order.answered(item, lambda: self._deliver(item, answer, batch, ran))

    def _deliver(self, item: Pending, answer: Optional[Answer], batch: Batch[Pending], ran: Ran) -> None:
        if item.ended:
            release(answer)
        elif isinstance(answer, Outcome):
            now = self._clock.monotonic()
            item.future.set_result(response_of(self.model, self.version, item, answer, batch, ran, now))
        elif isinstance(answer, BaseException):
            item.fail(answer)
        else:
            item.fail(errors.ExecutionError("the host gave no answer for this request of model '%s'" % self.model))

    def lost(self, lane: Lane, batch: Batch[Pending], reason: str, suspect: bool = True) -> None:
        """The host ended with this batch in it: answered places stand, the others are tried once more, alone."""
        now = self._clock.monotonic()
        self._lanes.remove(lane, batch, now)
        for item, answer in zip(batch.items, batch.answers):
            if answer is not None:
                self._answer(item, answer, batch, Ran(0.0, 0.0, 0.0))
            elif not item.ended:
                self._retry(item, reason, now, suspect)
        self._pump()

    def _retry(self, item: Pending, reason: str, now: float, suspect: bool) -> None:
        """Once alone, and again only as long as the host's end was not its doing."""
        if self._closed is not None:
            self._refuse(item, self._closed)
        elif item.retried and suspect:
            text = "the engine host of model '%s' ended while it ran this request alone: %s"
            error = errors.HostDied(text % (self.model, reason))
            self._order.answered(item, lambda: item.fail(error))
            self._on_lone_death()
        else:
            if not item.retried:
                window = now + _RETRY_WINDOW_S
                item.deadline = window if item.deadline is None else min(item.deadline, window)
            item.retried = True
            self.queue.push_retry(item)

    def _refuse(self, item: Pending, error: errors.EdgeAgentError) -> None:
        """Ends it without its turn: it was not sent, or not to the end."""
        item.fail(error)
        self._order.leave(item)

    def _too_late(self, item: Pending, now: float) -> errors.EdgeAgentError:
        if item.retried:
            return errors.ModelNotReady("the engine host of model '%s' ended and did not come back in time" % self.model)
        waited_ms = (now - item.enqueued_at) * 1e3
        return errors.DeadlineExceeded("Request timeout expired: waited %.0f ms for model '%s'" % (waited_ms, self.model))


class _LaneOwner:
    """Tells the batcher which lane a batch was in."""

    def __init__(self, batcher: DynamicBatcher, lane: Lane) -> None:
        self._batcher = batcher
        self._lane = lane

    def finished(self, batch: Batch[Pending], ran: Ran) -> None:
        """See BatchOwner."""
        self._batcher.finished(self._lane, batch, ran)

    def lost(self, batch: Batch[Pending], reason: str, suspect: bool = True) -> None:
        """See BatchOwner."""
        self._batcher.lost(self._lane, batch, reason, suspect)
