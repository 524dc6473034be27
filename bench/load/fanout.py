"""One writer, many live readers: an event is finished when it is acked and has reached them all."""

from __future__ import annotations

import asyncio
import socket
import time
from array import array
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

from bench.load.appends import DRAIN_S, POLL_S
from bench.load.connection import connect, connect_all
from bench.load.dialect import Dialect, Feed, Request, Subscriber
from bench.load.payload import MARKS, message
from bench.load.window import Pace, Span, instant, span

STALLED_BUFFER: Final = 4096
"""Receive buffer of a reader that stops reading: the server feels it soon."""

FOLLOW_S: Final = 60.0


def ignore(marks: bytes) -> None:
    """Take deliveries that nobody counts."""
    del marks


class Delivered(NamedTuple):
    """What a stretch of fan-out did; latencies in seconds, one for each delivery."""

    deliveries: int
    latencies: array[float]
    span: Span


class Slot(asyncio.Protocol):
    """A writer's connection with its own mark and at most one unfinished event."""

    def __init__(self, board: Board, feed: Feed, request: Request) -> None:
        """Send `request` again and again, each time the last one is finished."""
        self._board = board
        self._feed = feed
        self._request = request
        self.sent_at = 0.0
        self.missing = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and say what must be said first."""
        self.transport = cast("asyncio.Transport", transport)
        if self._request.hello:
            self.transport.write(self._request.hello)

    def send(self, now: float) -> None:
        """Send the next event; the ack counts like one more reader."""
        self.missing = self._board.readers + 1
        self.sent_at = now
        self.transport.write(self._request.data)

    def data_received(self, data: bytes) -> None:
        """Count the ack."""
        try:
            acks = self._feed(data)
        except Exception as error:  # noqa: BLE001 - whatever it is, the load must end with it
            self._board.fail(error)
            return
        self.missing -= acks
        if acks and self.missing == 0:
            self._board.finish(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the load: a server that hangs up has failed."""
        if self.missing > 0:
            self._board.fail(exc or ConnectionError("the server closed a writer"))


class Board:
    """Who still waits for which event."""

    def __init__(self, readers: int) -> None:
        """Count deliveries to `readers` readers."""
        self.readers = readers
        self.slots: dict[int, Slot] = {}
        self.latencies = array("d")
        self.failure: Exception | None = None
        self._is_running = False
        self._open = 0
        self._idle = asyncio.Event()

    def deliver(self, marks: bytes) -> None:
        """Take the marks of events that reached one reader."""
        now = time.perf_counter()
        slots, note = self.slots, self.latencies.append
        for mark in marks:
            slot = slots[mark]
            note(now - slot.sent_at)
            slot.missing -= 1
            if slot.missing == 0:
                self.finish(slot)

    def finish(self, slot: Slot) -> None:
        """Send a slot's next event, or let it rest."""
        if self._is_running:
            slot.send(time.perf_counter())
        else:
            self._open -= 1
            if self._open == 0:
                self._idle.set()

    def fail(self, error: Exception) -> None:
        """Note the first failure and end the load."""
        self.failure = self.failure or error
        self._is_running = False
        self._idle.set()

    def begin(self) -> None:
        """Send the first event of each slot."""
        self._is_running = True
        self._open = len(self.slots)
        self._idle.clear()
        for slot in self.slots.values():
            slot.send(time.perf_counter())

    async def some(self) -> None:
        """Wait until anything was delivered: a slow server has a low rate, not none."""
        async with asyncio.timeout(DRAIN_S):
            # An event would cost every ack; this is for the rare server that had none yet.
            while not self.latencies and self.failure is None:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)

    async def drain(self) -> None:
        """Wait until every event has reached everybody; raise the first failure."""
        self._is_running = False
        async with asyncio.timeout(DRAIN_S):
            await self._idle.wait()
        if self.failure is not None:
            raise self.failure


class Audience:
    """Subscribers of one stream, kept over several measurements, and perhaps a stalled one."""

    def __init__(self, dialect: Dialect, stream: str, size: int) -> None:
        """Prepare `size` subscribers of `stream`."""
        self._dialect = dialect
        self._stream = stream
        self.size = size
        self._board = Board(size)
        self._subscribers: Sequence[Subscriber] = ()

    async def gather(self, *, stalled: bool = False) -> None:
        """Connect and wait until nobody can miss anything; then a stalled one stops reading."""
        count = self.size + stalled
        made = [self._dialect.subscriber(self._stream, n, self._hear) for n in range(self.size)]
        if stalled:
            made.append(self._dialect.subscriber(self._stream, self.size, ignore))
        self._subscribers = await connect_all(self._dialect, made)
        if stalled:
            raw = made[-1].transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STALLED_BUFFER)
        for subscriber in made:
            subscriber.begin()
        async with asyncio.timeout(FOLLOW_S):
            await asyncio.gather(*(subscriber.following for subscriber in made))
        self._dialect.settle(self._stream, count)
        if stalled:
            made[-1].transport.pause_reading()

    def _hear(self, marks: bytes) -> None:
        self._board.deliver(marks)

    async def measure(self, in_flight: int, size: int, pace: Pace, pid: int) -> Delivered:
        """Let events of `size` bytes flow, `in_flight` at a time, and measure."""
        board = self._board = Board(self.size)
        for mark in MARKS[:in_flight]:
            request = self._dialect.append(self._stream, (message(size, bytes((mark,))),))
            slot = Slot(board, self._dialect.appended(), request)
            board.slots[mark] = await connect(self._dialect, slot)
        try:
            board.begin()
            await asyncio.sleep(pace.warm_s)
            board.latencies = array("d")
            before = instant(pid)
            await asyncio.sleep(pace.run_s)
            await board.some()
            after, deliveries = instant(pid), len(board.latencies)
            await board.drain()
        finally:
            for slot in board.slots.values():
                slot.transport.abort()
        return Delivered(deliveries, board.latencies, span(before, after))

    def leave(self) -> None:
        """Hang up, all of them."""
        for subscriber in self._subscribers:
            if hasattr(subscriber, "transport"):
                subscriber.transport.abort()
