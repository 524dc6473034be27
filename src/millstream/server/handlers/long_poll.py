"""Long-poll at the tail: wait for the next messages, the closure, or the time limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.server.context import Context, refuse
from millstream.server.handlers.page import send_page
from millstream.server.http import Response

if TYPE_CHECKING:
    from millstream.engine.tails import Tail
    from millstream.server.http import Reply, Request
    from millstream.wire.read import Wanted


class LongPoll:
    """One waiting request."""

    __slots__ = ("_context", "_index", "_reply", "_request", "_tail", "_timer", "_wanted")

    def __init__(
        self, context: Context, tail: Tail, wanted: Wanted, request: Request, reply: Reply
    ) -> None:
        """Wait for what follows the tail as it is now."""
        self._context = context
        self._tail = tail
        self._wanted = wanted
        self._request = request
        self._reply = reply
        self._index = tail.index
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Answer at once if the stream is closed, else wait."""
        if self._tail.is_closed:
            self._send_nothing()
            return
        self._tail.watch(self._changed)
        self._context.live.add(self._send_nothing)
        delay_s = self._context.settings.long_poll_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._send_nothing)
        self._reply.on_disconnect(self._end)

    def _changed(self) -> None:
        tail = self._tail
        if tail.index > self._index:
            self._end()
            send_page(self._context, tail, self._index, self._wanted, self._request, self._reply)
        elif tail.is_closed:
            self._send_nothing()
        elif tail.is_removed or tail.life:
            self._end()
            code = Code.STREAM_GONE if not tail.is_removed else Code.STREAM_NOT_FOUND
            self._reply.send(refuse(Refused(code=code, detail="the stream was deleted")))

    def _send_nothing(self) -> None:
        self._end()
        tail = self._tail
        headers = [
            (b"stream-next-offset", tail.offset.encode()),
            (b"stream-up-to-date", b"true"),
            (b"cache-control", b"no-store"),
        ]
        if tail.is_closed:
            headers.append((b"stream-closed", b"true"))
        else:
            cursor = self._context.cursor(self._wanted.cursor)
            headers.append((b"stream-cursor", b"%d" % cursor))
        self._reply.send(Response(204, headers))

    def _end(self) -> None:
        self._tail.unwatch(self._changed)
        self._context.live.discard(self._send_nothing)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
