"""What a protocol must offer so that every workload runs over it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, cast

Feed = Callable[[bytes], int]
"""Takes the next bytes of a connection; returns how many acknowledgements they completed."""


class BadReply(RuntimeError):
    """The server answered something else than success; the message holds the answer's start."""


class Request(NamedTuple):
    """Prebuilt bytes of one request: what comes back, what it stores, what must be said before.

    `hello` is sent once on the connection that carries the request; it is not answered.
    """

    data: bytes
    acks: int
    messages: int
    hello: bytes = b""


class Deliveries(Protocol):
    """Whoever is told about messages that reached a subscriber."""

    def __call__(self, marks: bytes) -> None:
        """Take the marks of the messages that just arrived at one subscriber."""


class Subscriber(asyncio.Protocol):
    """One live reader on its own connection; `following` is done when nothing can be missed."""

    def __init__(self, deliver: Deliveries) -> None:
        """Report to `deliver` from the first message behind the subscription on."""
        self.deliver = deliver
        self.following: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport

    def begin(self) -> None:
        """Ask for the stream; the connection is open."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail whoever still waits for the subscription."""
        if not self.following.done():
            self.following.set_exception(exc or ConnectionError("closed before it followed"))


class Reader(asyncio.BufferedProtocol):
    """One catch-up reader on its own connection; `done` is set when it has every message."""

    def __init__(self) -> None:
        """Prepare a reader; `connection_made` starts it."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.received = 0
        self.transport: asyncio.Transport

    def begin(self) -> None:
        """Ask for the stream; the connection is open."""
        raise NotImplementedError

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail whoever still waits for the rest."""
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError(f"closed after {self.received}"))


class Dialect(Protocol):
    """One server's address and language."""

    host: str
    port: int
    greeting: bytes
    """Sent on a new connection before anything else; empty if the protocol has no greeting."""
    greeted: bytes
    """What the server has said at the end of the greeting."""

    def create(self, stream: str) -> None:
        """Make a stream, blocking; where appends make it, nothing happens."""

    def drop(self, stream: str) -> None:
        """Remove a stream and its data, blocking."""

    def append(self, stream: str, messages: Sequence[bytes]) -> Request:
        """Return the request, or the pipelined requests, that append `messages`."""

    def opening(self, stream: str, message: bytes, number: int) -> Sequence[Request]:
        """Return the requests, one after the other, that make a stream and append to it.

        `number` is that of the connection which will carry them.
        """

    def opening_whole(self, stream: str, message: bytes) -> Request | None:
        """Return the one request that makes a stream with its first message, if there is one."""

    def appended(self) -> Feed:
        """Return a counter of append acknowledgements for one connection."""

    def answered(self) -> Feed:
        """Return a counter of answers of any kind for one connection."""

    def subscriber(self, stream: str, number: int, deliver: Deliveries) -> Subscriber:
        """Return a live reader of what is appended from now on."""

    def settle(self, stream: str, subscribers: int) -> None:
        """Block until the server has taken in that many subscriptions."""

    def reader(self, stream: str, number: int, messages: int) -> Reader:
        """Return a reader of the first `messages` messages."""
