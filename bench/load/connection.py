"""Opening connections: one by one or by the thousand, with the protocol's greeting."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Sequence
from typing import Final, TypeVar, cast

from bench.load.dialect import Dialect

P = TypeVar("P", bound=asyncio.BaseProtocol)

AT_ONCE: Final = 200
IP_BIND_ADDRESS_NO_PORT: Final = 24
"""From the kernel's <linux/in.h>; the socket module has no name for it."""
PER_ADDRESS: Final = 5_000
"""Connections from one source address; the next ones come from another loopback address."""


class Greeting(asyncio.Protocol):
    """Says hello, waits for the answer, then hands the connection to its real protocol."""

    def __init__(self, dialect: Dialect, then: asyncio.BaseProtocol) -> None:
        """Greet in `dialect`, and hand over to `then`."""
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._dialect = dialect
        self._then = then
        self._heard = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say hello."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._dialect.greeting)

    def data_received(self, data: bytes) -> None:
        """Wait for the end of the greeting."""
        self._heard += data
        if self._dialect.greeted in self._heard and not self.done.done():
            self._transport.set_protocol(self._then)
            self._then.connection_made(self._transport)
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the greeting if it is still going on."""
        if not self.done.done():
            self.done.set_exception(exc or ConnectionError("closed during the greeting"))


async def connect(dialect: Dialect, protocol: P, number: int = 0) -> P:
    """Open a connection for `protocol` and return it once the greeting is over."""
    loop = asyncio.get_running_loop()
    wire = _socket(number)
    try:
        await loop.sock_connect(wire, (dialect.host, dialect.port))
    except BaseException:
        wire.close()
        raise
    if not dialect.greeting:
        await loop.create_connection(lambda: protocol, sock=wire)
        return protocol
    _, greeting = await loop.create_connection(lambda: Greeting(dialect, protocol), sock=wire)
    await greeting.done
    return protocol


def _socket(number: int) -> socket.socket:
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if number >= PER_ADDRESS:
        # Without this the port is chosen before the peer is known, which takes the kernel longer
        # the more connections there are: ten thousand took ten seconds of our processor.
        made.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        made.bind((f"127.0.{1 + number // PER_ADDRESS}.1", 0))
    return made


async def connect_all(dialect: Dialect, protocols: Sequence[P]) -> Sequence[P]:
    """Open a connection for each protocol, some hundred at a time."""
    for at in range(0, len(protocols), AT_ONCE):
        part = protocols[at : at + AT_ONCE]
        await asyncio.gather(*(connect(dialect, p, at + n) for n, p in enumerate(part)))
    return protocols
