"""An ASGI host in miniature: one application, asked without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Message = MutableMapping[str, Any]
App = Callable[
    [Message, Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]],
    Awaitable[None],
]


class Call:
    """One request on its way: what the application sent so far, and when the client leaves."""

    def __init__(self, app: App, scope: Message, *bodies: Message) -> None:
        self._incoming: asyncio.Queue[Message] = asyncio.Queue()
        for body in bodies:
            self._incoming.put_nowait(body)
        self.sent: list[Message] = []
        self.has_sent = asyncio.Event()
        self.may_send = asyncio.Event()
        self.may_send.set()
        self.task = asyncio.ensure_future(app(scope, self._incoming.get, self._send))

    async def _send(self, message: Message) -> None:
        await self.may_send.wait()
        self.sent.append(message)
        self.has_sent.set()

    def leave(self) -> None:
        """Play a client that goes away."""
        self._incoming.put_nowait({"type": "http.disconnect"})

    async def next_sent(self, count: int) -> None:
        """Wait until the application has sent ``count`` messages."""
        async with asyncio.timeout(10):
            while len(self.sent) < count:
                self.has_sent.clear()
                await self.has_sent.wait()

    async def end(self) -> Call:
        """Wait for the application to return."""
        async with asyncio.timeout(10):
            await self.task
        return self

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.sent[0]["headers"])

    @property
    def body(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


def http(
    app: App,
    method: str,
    target: str,
    body: bytes = b"",
    headers: tuple[tuple[bytes, bytes], ...] = (),
) -> Call:
    """Begin one request."""
    path, _, query = target.partition("?")
    scope: Message = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(b"host", b"x"), *headers],
    }
    return Call(app, scope, {"type": "http.request", "body": body, "more_body": False})
