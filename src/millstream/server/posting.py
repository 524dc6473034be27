"""Post one request to a checked address and read its answer: no redirects, no proxies, no reuse."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from typing import TYPE_CHECKING, Final, NamedTuple

import httptools

if TYPE_CHECKING:
    import ssl
    from collections.abc import Sequence

    from millstream.server.ssrf import Address, Guard, WebhookTarget

ANSWER_BYTES_MAX: Final = 64 * 1024
"""How much of an answer is read, head and all. What follows is not looked at."""

_CHUNK_BYTES: Final = 16 * 1024


class PostFailed(Exception):
    """No answer came: the message says why, in words that hold no secret of the URL."""


class Parcel(NamedTuple):
    """What is posted, and how the other side is recognised."""

    headers: Sequence[tuple[str, str]]
    body: bytes
    tls: ssl.SSLContext | None = None


class Answer(NamedTuple):
    """What the other side said; ``body`` is empty when it was cut or too large."""

    status: int
    body: bytes


async def resolve(target: WebhookTarget, guard: Guard) -> list[Address]:
    """Return the addresses of a target, every one of them checked.

    Raises PostFailed when there is none, or when a single one is not allowed.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except OSError as error:
        message = f"the name {target.host!r} cannot be resolved"
        raise PostFailed(message) from error
    addresses: dict[Address, None] = {}
    for *_, place in found:
        try:
            addresses[ipaddress.ip_address(place[0])] = None
        except ValueError as error:
            message = f"{target.host!r} has an address that cannot be read"
            raise PostFailed(message) from error
    for address in addresses:
        rule = guard.broken_rule(target, address)
        if rule is not None:
            message = f"{target.host!r} is not allowed: {rule}"
            raise PostFailed(message)
    if not addresses:
        message = f"the name {target.host!r} has no address"
        raise PostFailed(message)
    return list(addresses)


async def post(target: WebhookTarget, addresses: Sequence[Address], parcel: Parcel) -> Answer:
    """Send a parcel to the first address that takes the connection and return the answer.

    The caller limits the time. Raises PostFailed when no whole answer head came.
    """
    reader, writer = await _connect(target, addresses, parcel.tls)
    try:
        head = [
            f"POST {target.resource} HTTP/1.1",
            f"Host: {target.authority}",
            *(f"{name}: {value}" for name, value in parcel.headers),
            f"Content-Length: {len(parcel.body)}",
            "Connection: close",
        ]
        writer.write("\r\n".join(head).encode("ascii") + b"\r\n\r\n" + parcel.body)
        await writer.drain()
        return await _read(reader)
    except (OSError, EOFError) as error:
        message = "the connection broke"
        raise PostFailed(message) from error
    finally:
        writer.transport.abort()


async def _connect(
    target: WebhookTarget, addresses: Sequence[Address], tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reason: BaseException | None = None
    for address in addresses:
        try:
            # The name is only for the certificate; the connection goes to what was checked.
            return await asyncio.open_connection(
                str(address),
                target.port,
                ssl=tls if target.is_tls else None,
                server_hostname=target.host if target.is_tls else None,
            )
        except OSError as error:
            reason = error
    kind = type(reason).__name__
    message = f"no connection to {target.host!r} port {target.port} ({kind})"
    raise PostFailed(message) from reason


async def _read(reader: asyncio.StreamReader) -> Answer:
    answer = _Reading()
    parser = httptools.HttpResponseParser(answer)
    answer.parser = parser
    total = 0
    while not answer.is_over():
        chunk = await reader.read(_CHUNK_BYTES)
        if not chunk:
            break
        total += len(chunk)
        try:
            parser.feed_data(chunk)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if answer.is_over():
                # Something behind the answer; it is none of our business.
                break
            message = "the answer is not HTTP"
            raise PostFailed(message) from error
        if total > ANSWER_BYTES_MAX:
            break
    if not answer.status:
        message = "no answer came before the connection ended"
        raise PostFailed(message)
    is_closed_body = answer.has_no_length and total <= ANSWER_BYTES_MAX
    if answer.is_over() or is_closed_body:
        return Answer(answer.status, b"".join(answer.parts))
    return Answer(answer.status, b"")


class _Reading:
    """Takes the parser's calls for one answer; interim answers (1xx) do not count."""

    def __init__(self) -> None:
        self.parser: httptools.HttpResponseParser
        self.status = 0
        self.parts: list[bytes] = []
        self.is_whole = False
        self.has_no_length = True

    def is_over(self) -> bool:
        return self.is_whole

    def on_message_begin(self) -> None:
        if self.is_whole:
            return
        self.status = 0
        self.has_no_length = True
        self.parts.clear()

    def on_header(self, name: bytes, _value: bytes) -> None:
        if name.lower() in (b"content-length", b"transfer-encoding"):
            self.has_no_length = False

    def on_headers_complete(self) -> None:
        if not self.is_whole:
            status = self.parser.get_status_code()
            self.status = status if status >= 200 else 0

    def on_body(self, body: bytes) -> None:
        if not self.is_whole:
            self.parts.append(body)

    def on_message_complete(self) -> None:
        if self.status:
            self.is_whole = True


async def within(seconds: float, target: WebhookTarget, guard: Guard, parcel: Parcel) -> Answer:
    """Resolve, check and post, all of it within ``seconds``. Raises PostFailed, only that."""
    try:
        async with asyncio.timeout(seconds):
            addresses = await resolve(target, guard)
            return await post(target, addresses, parcel)
    except TimeoutError as error:
        message = f"no answer within {seconds:g} s"
        raise PostFailed(message) from error
