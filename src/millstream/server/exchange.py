"""One request's answer on its way out: the edge's `Reply` and `Sink`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final

from millstream.server.http import Headers, Response

if TYPE_CHECKING:
    from millstream.server.connection import Connection

_log = logging.getLogger(__name__)

_JOIN_BYTES_MAX: Final = 16 * 1024
_BODILESS: Final = frozenset((204, 304))
_CLOSE: Final = b"connection: close\r\n"
_KEEP: Final = b"connection: keep-alive\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


class Exchange:
    """Implements `Reply`. Once answered or disconnected it lets go of the connection."""

    __slots__ = (
        "_connection",
        "_gone",
        "_has_begun",
        "_sink",
        "_task",
        "extra",
        "is_disconnected",
        "is_head",
        "is_kept",
        "is_old",
    )

    def __init__(
        self,
        connection: Connection,
        is_head: bool,  # noqa: FBT001 - positional, because every request pays for it
        is_kept: bool,  # noqa: FBT001
        is_old: bool,  # noqa: FBT001
    ) -> None:
        """Open the exchange for the request that `connection` hands to a handler."""
        self._connection: Connection | None = connection
        self._has_begun = False
        self._gone: list[Callable[[], None]] | None = None
        self._sink: ChunkSink | None = None
        self._task: asyncio.Task[None] | None = None
        self.extra = b""
        self.is_disconnected = False
        self.is_head = is_head
        self.is_kept = is_kept
        self.is_old = is_old

    @property
    def is_streaming(self) -> bool:
        """Whether the answer has begun and has not ended."""
        return self._sink is not None

    def send(self, response: Response) -> None:
        """See `Reply`."""
        if self._has_begun:
            raise RuntimeError("a request was answered twice")
        self._has_begun = True
        connection = self._connection
        if connection is None:
            return
        status = response.status
        body = response.body
        tail = self.extra
        if status in _BODILESS or self.is_head:
            body = b""
        elif isinstance(body, bytes):
            tail = b"%bcontent-length: %d\r\n" % (tail, len(body))
        else:
            tail = b"%bcontent-length: %d\r\n" % (tail, sum(map(len, body)))
        edge = connection.edge
        if not self.is_kept or edge.is_stopping:
            self.is_kept = False
            tail += _CLOSE
        elif self.is_old:
            tail += _KEEP
        try:
            head = edge.heads.render(status, response.headers, tail)
        except ValueError:
            # Nothing has been written: the client can still get an honest answer.
            self._has_begun = False
            self.fail("an answer had a header that cannot be sent")
            return
        connection.outbox.write(head, body)
        self._connection = None
        self._gone = None
        connection.finish(self.is_kept, status)

    def start(self, status: int, headers: Headers) -> ChunkSink:
        """See `Reply`."""
        if self._has_begun:
            raise RuntimeError("a request was answered twice")
        self._has_begun = True
        connection = self._connection
        tail = self.extra
        is_chunked = not self.is_old and not self.is_head
        if is_chunked:
            tail += _CHUNKED
        if connection is not None:
            if not self.is_kept or connection.edge.is_stopping or self.is_old:
                self.is_kept = False
                tail += _CLOSE
            connection.outbox.write(connection.edge.heads.render(status, headers, tail))
        self._sink = ChunkSink(self, connection, status, is_chunked=is_chunked)
        return self._sink

    def spawn(self, coro: Coroutine[object, object, None]) -> None:
        """See `Reply`."""
        if self._connection is None:
            coro.close()
            return
        self._task = self._connection.edge.run(self._watch(coro))

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """See `Reply`."""
        if self.is_disconnected:
            callback()
        elif self._gone is None:
            self._gone = [callback]
        else:
            self._gone.append(callback)

    def fail(self, what: str) -> None:
        """Answer 500, or cut a body that has begun; the log gets the present traceback."""
        _log.exception("request failed: %s", what)
        connection = self._connection
        if connection is None:
            return
        if self._has_begun:
            connection.transport.abort()
        else:
            problem = connection.edge.problem
            self.send(problem("internal", "the server failed on this request; its log says why."))

    def disconnect(self) -> None:
        """The client has gone: tell everybody who works for it."""
        if self._connection is None:
            return
        self._connection = None
        self.is_disconnected = True
        if self._sink is not None:
            self._sink.detach()
        if self._task is not None:
            self._task.cancel()
        callbacks, self._gone = self._gone, None
        for callback in callbacks or ():
            _guarded(callback)

    def drain(self) -> None:
        """The client has caught up with what was written."""
        if self._sink is not None:
            self._sink.drain()

    def finish_stream(self, last: bytes, status: int) -> None:
        """End a streamed answer, writing `last`."""
        connection = self._connection
        self._sink = None
        if connection is not None:
            if last:
                connection.outbox.write(last)
            self._connection = None
            self._gone = None
            connection.finish(self.is_kept, status)

    async def _watch(self, coro: Coroutine[object, object, None]) -> None:
        try:
            await coro
        except asyncio.CancelledError:
            if self._connection is not None:
                self._connection.transport.abort()
            raise
        except Exception:  # noqa: BLE001 - the last line of defence for every handler
            self.fail("an async handler raised")
        else:
            if self._connection is not None and not self._has_begun:
                self.fail("an async handler ended without an answer")


class Taken:
    """Stands in a connection where an exchange would, while a lane has its request."""

    __slots__ = ()

    is_streaming: Final = False

    def disconnect(self) -> None:
        """The client has gone: its answer will find nobody, which is nobody else's business."""

    def drain(self) -> None:
        """Nothing is being streamed."""


TAKEN: Final = Taken()


class ChunkSink:
    """Implements `Sink`."""

    __slots__ = ("_connection", "_drained", "_exchange", "_is_chunked", "_is_mute", "_status")

    # Fan-out hands the same bytes object to many sinks in a row: frame it once.
    _framed_for: bytes = b""
    _framed: bytes = b""

    def __init__(
        self,
        exchange: Exchange,
        connection: Connection | None,
        status: int,
        *,
        is_chunked: bool,
    ) -> None:
        """Stream the body of `exchange`; a `connection` of None is a client that has gone."""
        self._exchange = exchange
        self._connection = connection
        self._status = status
        self._is_chunked = is_chunked
        self._is_mute = exchange.is_head
        self._drained: Callable[[], None] | None = None

    @property
    def buffered(self) -> int:
        """See `Sink`."""
        return 0 if self._connection is None else self._connection.transport.get_write_buffer_size()

    @property
    def is_paused(self) -> bool:
        """See `Sink`."""
        return self._connection is not None and self._connection.is_write_paused

    def write(self, data: bytes) -> None:
        """See `Sink`."""
        connection = self._connection
        if connection is None or not data or self._is_mute:
            return
        if not self._is_chunked:
            connection.outbox.write(data)
        elif data is ChunkSink._framed_for:
            connection.outbox.write(ChunkSink._framed)
        elif len(data) <= _JOIN_BYTES_MAX:
            framed = b"%x\r\n%b\r\n" % (len(data), data)
            ChunkSink._framed_for = data
            ChunkSink._framed = framed
            connection.outbox.write(framed)
        else:
            connection.outbox.write(b"%x\r\n" % len(data), (data, b"\r\n"))

    def close(self) -> None:
        """See `Sink`."""
        if self._connection is not None:
            self._connection = None
            self._exchange.finish_stream(b"0\r\n\r\n" if self._is_chunked else b"", self._status)

    def on_drain(self, callback: Callable[[], None]) -> None:
        """See `Sink`."""
        self._drained = callback

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        """See `Sink`."""
        if self._connection is not None:
            self._exchange.on_disconnect(callback)
        elif self._exchange.is_disconnected:
            callback()

    def drain(self) -> None:
        """The buffer is low again: let the handler write on."""
        if self._drained is not None:
            _guarded(self._drained)

    def detach(self) -> None:
        """The client has gone: swallow everything from now on."""
        self._connection = None


def _guarded(callback: Callable[[], None]) -> None:
    try:
        callback()
    except Exception:  # noqa: BLE001 - one handler's fault must not reach another's connection
        _log.exception("a callback of a handler raised")
