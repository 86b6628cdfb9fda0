"""The calls that one instance of a Python model has out: from its question to the moment it has read the answer."""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from typing import Any, Callable, Dict, FrozenSet, List, Mapping, Optional, Sequence, Set

from edge_agent import errors
from edge_agent.domain.requests import InferResponse
from edge_agent.domain.tensors import Lease
from edge_agent.engine_host import wire
from edge_agent.engines.calls import Call, CallHost
from edge_agent.kserve.body import ALIGNMENT

#: what a Python model is told of an error, in Triton's words; the first that fits
_STATUSES = (
    (errors.ModelNotFound, "NOT_FOUND"),
    (errors.Unsupported, "UNSUPPORTED"),
    (errors.RequestError, "INVALID_ARG"),
    (errors.UnavailableError, "UNAVAILABLE"),
)
_MAX_OPEN = 64  #: the host keeps a lower bound of its own


class InstanceCalls:
    """Reads the instance's calls and answers them. `on_wait` is told when the agent has a call in hand, and when none."""

    def __init__(
        self,
        host: CallHost,
        name: str,
        label: str,
        deliver: Callable[[bytes], None],
        behind: Callable[[], FrozenSet[str]],
        on_open: Callable[[bool], None],
        on_wait: Callable[[bool], None],
    ) -> None:
        self.name = name
        self._label = label
        self._host = host
        self._deliver = deliver
        self._behind = behind
        self._on_open = on_open
        self._on_wait = on_wait
        self._open: Dict[int, _OpenCall] = {}
        self._in_hand: Set[int] = set()

    def join(self) -> None:
        """Batches may come."""
        self._host.desk.waits.join(self.name, self._label, self._behind)

    def leave(self) -> None:
        """No more of them."""
        self._host.desk.waits.leave(self.name)

    @property
    def open(self) -> bool:
        """Whether the model waits for another, or may: it takes no batch now."""
        return bool(self._open)

    def on_message(self, kind: int, number: int, fields: Mapping[str, Any]) -> None:
        """CALL, CALL_GO or CALL_FREE; anything else is ignored. ValueError, LookupError, TypeError when it cannot be read."""
        if kind == wire.CALL:
            if len(self._open) >= _MAX_OPEN:
                raise ValueError("more than %d calls at once" % _MAX_OPEN)
            self._begin(number, fields)
        elif kind == wire.CALL_GO and number in self._open:
            self.in_hand(number, True)
            self._open[number].on_written()
        elif kind == wire.CALL_FREE and number in self._open:
            self._end(number)

    def lose(self) -> None:
        """The host ended: nobody can write to the slots any more."""
        for number in list(self._open):
            self._end(number)

    def _begin(self, number: int, fields: Mapping[str, Any]) -> None:
        opened = _OpenCall(self, number)
        first = not self._open
        self._open[number] = opened
        self.in_hand(number, True)
        if first:
            self._on_open(True)
        callers = (self.name, *sorted(self._behind() - {self.name}))
        try:
            call = Call(fields, self._label, callers, self._host, opened)
        except (ValueError, LookupError, TypeError, OverflowError) as error:  # the model's own doing, not its host's
            text = "the call cannot be read: %s: %s" % (type(error).__name__, error)
            opened.answer({"error": {"text": text, "status": "INVALID_ARG"}})
            return
        opened.task = self._host.tasks.spawn(self._run(opened, call), "call:%s#%d" % (self.name, number))
        opened.task.add_done_callback(partial(self._failed, opened))

    async def _run(self, opened: _OpenCall, call: Call) -> None:
        try:
            opened.response = response = await self._host.desk.on_call(call)
            await self._host.share_outputs(response)
        except errors.EdgeAgentError as error:
            status = next((word for kind, word in _STATUSES if isinstance(error, kind)), "INTERNAL")
            opened.answer({"error": {"text": str(error), "status": status}})
        else:
            opened.answer({"version": response.version, "outputs": _outputs(response)})

    @staticmethod
    def _failed(opened: _OpenCall, task: asyncio.Task[None]) -> None:
        """The unforeseen is in the log already; the model must not wait for ever."""
        if not task.cancelled() and task.exception() is not None:
            opened.answer({"error": {"text": "the call failed in the agent: see its log", "status": "INTERNAL"}})

    def _end(self, number: int) -> None:
        opened = self._open.pop(number)
        opened.end()
        self.in_hand(number, False)
        if not self._open:
            self._on_open(False)

    # -- for the open calls -------------------------------------------------------------------------------------------

    def in_hand(self, number: int, whether: bool) -> None:
        """Whether the model waits for the agent, or the agent for the model."""
        before = bool(self._in_hand)
        if whether:
            self._in_hand.add(number)
        else:
            self._in_hand.discard(number)
        if bool(self._in_hand) != before:
            self._on_wait(whether)

    def wait_for(self, label: str) -> None:
        """ExecutionError when the instance would wait for itself."""
        if not self._host.desk.waits.begin(self.name, label):
            raise errors.ExecutionError(
                "calling %s from %s would wait for itself: every instance of %s waits for this one; "
                "give it another instance, or let it not call back" % (label, self._label, label)
            )

    def waited_for(self, label: str) -> None:
        """It waits no more."""
        self._host.desk.waits.end(self.name, label)

    def say(self, kind: int, number: int, fields: Mapping[str, Any]) -> None:
        """To the model; nothing when its host is gone, which will be told."""
        with contextlib.suppress(errors.ChildGone):
            self._deliver(wire.pack_note(kind, number, fields))


class _OpenCall:
    """One of them: implements calls.CallSlots."""

    def __init__(self, calls: InstanceCalls, number: int) -> None:
        self.task: Optional[asyncio.Task[None]] = None
        self.response: Optional[InferResponse] = None
        self._calls = calls
        self._number = number
        self._label = ""
        self._leases: List[Lease] = []
        self._written: Optional[asyncio.Future[None]] = None

    def begin(self, label: str) -> None:
        """See CallSlots."""
        self._calls.wait_for(label)
        self._label = label

    async def written(self, leases: List[Lease], offsets: Sequence[int]) -> None:
        """See CallSlots."""
        self._leases = leases
        self._written = asyncio.get_running_loop().create_future()
        base = leases[0].offset
        assert base % ALIGNMENT == 0
        places = [[leases[0].segment, base + offset] for offset in offsets]
        self._calls.say(wire.CALL_ROOM, self._number, {"places": places})
        self._calls.in_hand(self._number, False)
        await self._written

    def on_written(self) -> None:
        """The inputs are in place."""
        if self._written is not None and not self._written.done():
            self._written.set_result(None)

    def answer(self, fields: Mapping[str, Any]) -> None:
        """Tells the model how it ended."""
        self._stop_waiting()
        self._calls.say(wire.CALL_DONE, self._number, fields)
        self._calls.in_hand(self._number, False)

    def end(self) -> None:
        """The model has read the answer, or wants none: the slots are free once nothing runs on them."""
        self._stop_waiting()
        if self.task is None or self.task.done():
            self._release()
        else:
            self.task.cancel()
            self.task.add_done_callback(lambda _: self._release())

    def _stop_waiting(self) -> None:
        if self._label:
            self._calls.waited_for(self._label)
            self._label = ""

    def _release(self) -> None:
        leases, self._leases = self._leases, []
        for lease in leases:
            lease.release()
        if self.response is not None:
            self.response.release()
            self.response = None


def _outputs(response: InferResponse) -> List[Dict[str, Any]]:
    return [
        {
            "name": tensor.name,
            "datatype": tensor.datatype.value,
            "shape": tensor.shape,
            "segment": tensor.lease.segment,
            "offset": tensor.lease.offset + tensor.start,
            "nbytes": tensor.nbytes,
        }
        for tensor in response.outputs
    ]
