"""Closed-loop appends: each connection sends its next request when the last one is acked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import NamedTuple, cast

from bench.load.connection import connect_all
from bench.load.dialect import Dialect, Feed, Request
from bench.load.window import Pace, Span, instant, span

DRAIN_S = 30.0
POLL_S = 0.01


class Appended(NamedTuple):
    """What a stretch of appends did; latencies in seconds, one for each request."""

    messages: int
    latencies: array[float]
    span: Span


class Tally:
    """What all connections of one load have done so far."""

    def __init__(self) -> None:
        """Start at nothing."""
        self.messages = 0
        self.latencies = array("d")
        self.is_running = True
        self.failure: Exception | None = None
        self.open = 0
        self.idle = asyncio.Event()

    def leave(self) -> None:
        """Note that one connection has nothing left to do."""
        self.open -= 1
        if self.open <= 0:
            self.idle.set()

    def fail(self, error: Exception) -> None:
        """Note the first failure and end the load."""
        self.failure = self.failure or error
        self.is_running = False
        self.idle.set()

    async def drain(self) -> None:
        """Wait until every answer is in; raise the first failure."""
        self.is_running = False
        async with asyncio.timeout(DRAIN_S):
            await self.idle.wait()
        if self.failure is not None:
            raise self.failure


class Appender(asyncio.Protocol):
    """One connection with one request in flight."""

    __slots__ = ("_feed", "_per_ack", "_requests", "_sent_at", "_tally", "_waiting", "_write",
                 "transport")  # fmt: skip

    def __init__(self, tally: Tally, feed: Feed, requests: Iterator[Request]) -> None:
        """Send `requests` one after the other for as long as the tally is running."""
        self._tally = tally
        self._feed = feed
        self._requests = requests
        self._waiting = 0
        self._per_ack = 0
        self._sent_at = 0.0
        self.transport: asyncio.Transport
        self._write: Callable[[bytes], None]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport; `begin` starts the load."""
        self.transport = cast("asyncio.Transport", transport)
        self._write = self.transport.write

    def begin(self) -> None:
        """Send the first request."""
        self._tally.open += 1
        self._next(time.perf_counter(), is_first=True)

    def _next(self, now: float, *, is_first: bool = False) -> None:
        request = next(self._requests, None) if self._tally.is_running else None
        if request is None:
            self._tally.leave()
            return
        self._waiting = request.acks
        self._per_ack = request.messages // request.acks if request.messages else 0
        self._sent_at = now
        self._write(request.hello + request.data if is_first else request.data)

    def data_received(self, data: bytes) -> None:
        """Count acks; with the last one of a request, send the next."""
        tally = self._tally
        try:
            acks = self._feed(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, the load must end with it
            tally.fail(error)
            return
        if not acks:
            return
        tally.messages += acks * self._per_ack
        self._waiting -= acks
        if self._waiting <= 0:
            now = time.perf_counter()
            tally.latencies.append(now - self._sent_at)
            self._next(now)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the load: a server that hangs up has failed."""
        if self._tally.is_running or self._waiting > 0:
            self._tally.fail(exc or ConnectionError("the server closed a connection"))


async def run(dialect: Dialect, requests: Sequence[Request], pace: Pace, pid: int) -> Appended:
    """Repeat each request on its own connection, warm up, measure, then wait for the rest."""
    tally = Tally()
    appenders = [Appender(tally, dialect.appended(), repeat(request)) for request in requests]
    await connect_all(dialect, appenders)
    try:
        for appender in appenders:
            appender.begin()
        await _pass(tally, pace.warm_s)
        tally.latencies = array("d")
        before, messages = instant(pid), tally.messages
        await _pass(tally, pace.run_s)
        await _first(tally, messages)
        after, messages = instant(pid), tally.messages - messages
        await tally.drain()
    finally:
        _close(appenders)
    return Appended(messages, tally.latencies, span(before, after))


async def work_off(
    dialect: Dialect,
    feed: Callable[[], Feed],
    requests: Sequence[Iterator[Request]],
    pid: int,
    limit_s: float | None = None,
) -> Appended:
    """Send every request of every sequence, one connection for each, and measure all of it.

    After `limit_s` no further request is sent: what is done until then is measured.
    """
    tally = Tally()
    appenders = [Appender(tally, feed(), sequence) for sequence in requests]
    await connect_all(dialect, appenders)
    try:
        before = instant(pid)
        for appender in appenders:
            appender.begin()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await tally.idle.wait()
        await tally.drain()
        after = instant(pid)
    finally:
        _close(appenders)
    return Appended(tally.messages, tally.latencies, span(before, after))


async def _first(tally: Tally, messages: int) -> None:
    """Wait on until something is acked: a slow server has a low rate, not none."""
    async with asyncio.timeout(DRAIN_S):
        # An event would cost every ack; this is for the rare server that had none yet.
        while tally.messages == messages and tally.failure is None:  # noqa: ASYNC110
            await asyncio.sleep(POLL_S)


async def _pass(tally: Tally, seconds: float) -> None:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await tally.idle.wait()
    if tally.failure is not None:
        raise tally.failure


def _close(appenders: Sequence[Appender]) -> None:
    for appender in appenders:
        if hasattr(appender, "transport"):
            appender.transport.abort()
