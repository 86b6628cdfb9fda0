"""Closed and open load against one agent, and what its latencies were."""

from __future__ import annotations

import asyncio
import random
from typing import Any, Awaitable, Dict, List, Sequence, Set

from edge_agent.cli.bench_connection import Address, Answer, Connection
from edge_agent.domain.clock import Clock

#: answers that are still out this long after the load's end are given up
_PATIENCE_S = 30.0
#: requests that an open load keeps open; more say only that the agent is over its limit
OPEN_MAX = 256
_RECONNECT_S = 0.05
_POISSON_SEED = 20  #: the same arrivals in every run, so that two runs can be compared


class Tally:
    """Latencies in seconds of requests that were answered, and what went wrong with the others."""

    def __init__(self) -> None:
        self.latencies: List[float] = []
        self.errors = 0
        self.first_error = ""
        self.seconds = 0.0

    def answered(self, answer: Answer, seconds: float) -> None:
        """One answer; anything but a 200 is an error."""
        if answer.status == 200:
            self.latencies.append(seconds)
        else:
            self.failed("status %d: %s" % (answer.status, answer.body[:300].decode("utf-8", "replace")))

    def failed(self, why: str) -> None:
        """One request without an answer."""
        self.errors += 1
        self.first_error = self.first_error or why

    def percentile(self, percent: float) -> float:
        """The latency that `percent` of the answers did not exceed; 0 without answers."""
        ranked = sorted(self.latencies)
        return ranked[min(len(ranked) - 1, int(len(ranked) * percent / 100))] if ranked else 0.0

    @property
    def mean(self) -> float:
        """Mean latency; 0 without answers."""
        return sum(self.latencies) / len(self.latencies) if self.latencies else 0.0

    def as_json(self) -> Dict[str, Any]:
        """Rate, percentiles in milliseconds, errors."""
        ranks = {"p%d_ms" % p: round(self.percentile(p) * 1e3, 3) for p in (50, 90, 95, 99)}
        rate = len(self.latencies) / self.seconds if self.seconds else 0.0
        return {
            "requests": len(self.latencies),
            "errors": self.errors,
            "first_error": self.first_error,
            "per_s": round(rate, 1),
            "mean_ms": round(self.mean * 1e3, 3),
            **ranks,
        }


class Load:
    """Puts load on an agent; each call is one measurement."""

    def __init__(self, address: Address, requests: Sequence[bytes], clock: Clock) -> None:
        self._address = address
        self._requests = requests
        self._clock = clock
        self._open: Set[Connection] = set()

    async def closed(self, clients: int, seconds: float) -> Tally:
        """So many clients, each of which sends its next request when it has its answer."""
        tally = Tally()
        connections = [await self._connect() for _ in range(clients)]
        end = self._clock.monotonic() + seconds
        work = [self._client(number, connection, end, tally) for number, connection in enumerate(connections)]
        await self._measured(tally, seconds, asyncio.gather(*work))
        return tally

    async def poisson(self, rate: float, seconds: float) -> Tally:
        """Arrivals as strangers make them; a latency counts from when the request was due, so that no wait is left out."""
        tally = Tally()
        await self._measured(tally, seconds, self._arrivals(rate, seconds, tally))
        return tally

    async def _measured(self, tally: Tally, seconds: float, work: Awaitable[Any]) -> None:
        start = self._clock.monotonic()
        given_up = asyncio.get_running_loop().call_later(seconds + _PATIENCE_S, self._give_up)
        try:
            await work
        finally:
            given_up.cancel()
            tally.seconds = self._clock.monotonic() - start
            self._give_up()

    def _give_up(self) -> None:
        for connection in list(self._open):
            connection.close()
        self._open.clear()

    async def _connect(self) -> Connection:
        connection = await Connection.open(self._address)
        self._open.add(connection)
        return connection

    async def _client(self, number: int, connection: Connection, end: float, tally: Tally) -> None:
        while True:
            now = self._clock.monotonic()
            if now >= end:
                return
            try:
                if connection.lost:
                    self._open.discard(connection)
                    connection = await self._connect()
                answer = await connection.ask(self._requests[number % len(self._requests)])
                tally.answered(answer, self._clock.monotonic() - now)
            except OSError as error:
                tally.failed(str(error))
                await asyncio.sleep(_RECONNECT_S)
            number += 1

    async def _arrivals(self, rate: float, seconds: float, tally: Tally) -> None:
        random_source = random.Random(_POISSON_SEED)
        idle: List[Connection] = []
        under_way: Set[asyncio.Future[None]] = set()
        start = due = self._clock.monotonic()
        number = 0
        while True:
            due += random_source.expovariate(rate)
            if due > start + seconds:
                break
            await asyncio.sleep(max(0.0, due - self._clock.monotonic()))
            if len(under_way) >= OPEN_MAX:
                tally.failed("more than %d requests were open: the agent does not keep up" % OPEN_MAX)
                continue
            task = asyncio.ensure_future(self._arrival(number, due, idle, tally))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            number += 1
        await asyncio.gather(*under_way)

    async def _arrival(self, number: int, due: float, idle: List[Connection], tally: Tally) -> None:
        try:
            connection = idle.pop() if idle else await self._connect()
            answer = await connection.ask(self._requests[number % len(self._requests)])
            tally.answered(answer, self._clock.monotonic() - due)
            idle.append(connection)
        except OSError as error:
            tally.failed(str(error))
