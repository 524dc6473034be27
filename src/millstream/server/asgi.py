"""The same handlers behind any ASGI server, for those who have one already.

`millstream serve` brings its own edge, which is several times cheaper per request and enforces
its own deadlines (ADR-0005). Behind an ASGI server the deadlines, header limits and connection
limits are that server's; the body limit, the security headers and CORS are ours as everywhere.
Run one process only: a data directory has one writer.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from millstream.core.errors import Code, Refused
from millstream.server.context import refuse
from millstream.server.cors import Cors
from millstream.server.http import Headers, Request, Response, is_single

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, MutableMapping

    from millstream.server.http import Handler
    from millstream.server.settings import Settings

    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]

_log = logging.getLogger(__name__)

_ALWAYS: Headers = (
    (b"x-content-type-options", b"nosniff"),
    (b"cross-origin-resource-policy", b"cross-origin"),
)


class AsgiReply:
    """Implements `Reply` for one request; `finish` carries the answer out."""

    def __init__(self) -> None:
        """Wait for an answer."""
        self.is_disconnected = False
        self.response: Response | None = None
        self.sink: AsgiSink | None = None
        self._answered = asyncio.Event()
        self._gone: list[Callable[[], None]] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, response: Response) -> None:
        """See `Reply`."""
        self._begin()
        self.response = response

    def start(self, status: int, headers: Headers) -> AsgiSink:
        """See `Reply`."""
        self._begin()
        self.sink = AsgiSink(status, headers)
        return self.sink

    def spawn(self, coro: Coroutine[object, object, None]) -> None:
        """See `Reply`."""
        task = asyncio.get_running_loop().create_task(self._watch(coro))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """See `Reply`."""
        if self.is_disconnected:
            callback()
        else:
            self._gone.append(callback)

    async def answered(self) -> None:
        """Return once the handler has answered or begun to."""
        await self._answered.wait()

    def disconnect(self) -> None:
        """The client has gone: stop whatever works for it."""
        self.is_disconnected = True
        self._answered.set()
        for task in tuple(self._tasks):
            task.cancel()
        callbacks, self._gone = self._gone, []
        for callback in callbacks:
            callback()
        if self.sink is not None:
            self.sink.disconnect()

    def _begin(self) -> None:
        if self.response is not None or self.sink is not None:
            message = "a request was answered twice"
            raise RuntimeError(message)
        self._answered.set()

    async def _watch(self, coro: Coroutine[object, object, None]) -> None:
        try:
            await coro
        except Exception:  # noqa: BLE001 - answered and logged
            _log.exception("a handler failed")
        if not self._answered.is_set():
            self.send(refuse(Refused(code=Code.INTERNAL, detail="the server failed on this")))


class AsgiSink:
    """Implements `Sink`: what the ASGI server has not taken yet waits here."""

    def __init__(self, status: int, headers: Headers) -> None:
        """Begin a body."""
        self.status = status
        self.headers = headers
        self.buffered = 0
        self.buffered_max = 256 * 1024
        self._parts: list[bytes] = []
        self._is_closed = False
        self._wake = asyncio.Event()
        self._drained: Callable[[], None] | None = None
        self._gone: Callable[[], None] | None = None

    @property
    def is_paused(self) -> bool:
        """See `Sink`."""
        return self.buffered > self.buffered_max

    def write(self, data: bytes) -> None:
        """See `Sink`."""
        if not self._is_closed:
            self._parts.append(data)
            self.buffered += len(data)
            self._wake.set()

    def close(self) -> None:
        """See `Sink`."""
        self._is_closed = True
        self._gone = None
        self._wake.set()

    def on_drain(self, callback: Callable[[], None]) -> None:
        """See `Sink`."""
        self._drained = callback

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """See `Sink`."""
        self._gone = callback

    def disconnect(self) -> None:
        """The client has gone."""
        gone = self._gone
        self.close()
        if gone is not None:
            gone()

    async def carry(self, send: Send) -> None:
        """Hand the body to the ASGI server, at the pace at which it takes it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            parts, self._parts = self._parts, []
            is_last = self._is_closed
            await send(
                {
                    "type": "http.response.body",
                    "body": b"".join(parts),
                    "more_body": not is_last,
                }
            )
            was_paused, self.buffered = self.is_paused, sum(map(len, self._parts))
            if is_last:
                return
            if was_paused and self._drained is not None:
                self._drained()


class AsgiApp:
    """An ASGI application over one of our handlers."""

    def __init__(self, handler: Handler, settings: Settings) -> None:
        """Serve ``handler``; of the settings, the body limit and CORS apply."""
        self._handler = handler
        self._body_bytes_max = settings.body_bytes_max
        self._cors = Cors(settings.cors_origins) if settings.cors_origins else None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one HTTP request; WebSockets and lifespan messages are not for this class."""
        assert scope["type"] == "http"
        headers = _joined(scope["headers"])
        if isinstance(headers, Refused):
            await _respond(send, refuse(headers), self._cors_headers({}), is_head=False)
            return
        extra = self._cors_headers(headers)
        body = await self._body(receive)
        if isinstance(body, Refused):
            await _respond(send, refuse(body), extra, is_head=False)
            return
        request = Request(
            scope["method"], scope["raw_path"], headers, body, scope["query_string"] or None
        )
        request.scheme = scope.get("scheme", "http")
        if self._cors is not None and request.method == "OPTIONS":
            await _respond(send, self._cors.preflight(), extra, is_head=False)
            return
        reply = AsgiReply()
        watcher = asyncio.get_running_loop().create_task(_watch_client(receive, reply))
        try:
            self._handler(request, reply)
            await reply.answered()
            if reply.response is not None:
                await _respond(send, reply.response, extra, is_head=request.method == "HEAD")
            elif reply.sink is not None:
                await send(_start(reply.sink.status, (*reply.sink.headers, *extra)))
                await reply.sink.carry(send)
        finally:
            watcher.cancel()

    def _cors_headers(self, headers: dict[bytes, bytes]) -> Headers:
        if self._cors is None:
            return ()
        lines = self._cors.lines(headers.get(b"origin")).split(b"\r\n")
        pairs = (line.partition(b": ") for line in lines if line)
        return tuple((name, value) for name, _, value in pairs)

    async def _body(self, receive: Receive) -> bytes | Refused:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            part = message.get("body", b"")
            size += len(part)
            if size > self._body_bytes_max:
                limit = self._body_bytes_max
                return Refused(
                    code=Code.BODY_TOO_LARGE, detail=f"a body may have at most {limit} bytes"
                )
            parts.append(part)
            if not message.get("more_body", False):
                return parts[0] if len(parts) == 1 else b"".join(parts)


async def _watch_client(receive: Receive, reply: AsgiReply) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    reply.disconnect()


def _joined(pairs: list[tuple[bytes, bytes]]) -> dict[bytes, bytes] | Refused:
    headers: dict[bytes, bytes] = {}
    for name, value in pairs:
        if name not in headers:
            headers[name] = value
        elif is_single(name):
            detail = f"the header {name.decode('latin-1')} may be given only once"
            return Refused(code=Code.BAD_REQUEST, detail=detail)
        else:
            headers[name] += b", " + value
    return headers


def _start(status: int, headers: Headers) -> Message:
    return {
        "type": "http.response.start",
        "status": status,
        "headers": [*_ALWAYS, *headers],
    }


async def _respond(send: Send, response: Response, extra: Headers, *, is_head: bool) -> None:
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    headers = (*response.headers, *extra)
    if response.status in (204, 304) or is_head:
        body = b""
    else:
        headers = (*headers, (b"content-length", b"%d" % len(body)))
    await send(_start(response.status, headers))
    await send({"type": "http.response.body", "body": body, "more_body": False})
