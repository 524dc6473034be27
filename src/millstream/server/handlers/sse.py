"""SSE: a stream followed live on one connection, at the reader's own pace."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from millstream.core import media
from millstream.core.errors import Refused
from millstream.core.streams.state import Life
from millstream.engine.tails import LiveEvent
from millstream.server.context import Context
from millstream.wire import sse

if TYPE_CHECKING:
    from millstream.engine.pages import Page
    from millstream.engine.tails import Tail
    from millstream.server.http import Reply, Sink
    from millstream.wire.read import Wanted

_LIVE = Life.LIVE

HEADERS = (
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)
BASE64 = (b"stream-sse-data-encoding", b"base64")


class Session:
    """One SSE connection.

    Nothing is queued for a slow reader: while its socket is full the session only remembers its
    position, and goes on from there once the reader has caught up.
    """

    __slots__ = (
        "_context",
        "_cursor",
        "_encode",
        "_has_spoken",
        "_index",
        "_is_fetching",
        "_is_over",
        "_limit",
        "_reply",
        "_sink",
        "_tail",
        "_timer",
    )

    def __init__(
        self, context: Context, tail: Tail, index: int, wanted: Wanted, reply: Reply
    ) -> None:
        """Follow ``tail`` from position ``index`` on."""
        self._context = context
        self._tail = tail
        self._index = index
        self._cursor = wanted.cursor
        self._limit = wanted.limit
        self._reply = reply
        self._is_fetching = False
        self._is_over = False
        self._has_spoken = False
        if tail.is_json:
            self._encode = sse.json_event
        elif media.is_text(tail.content_type):
            self._encode = sse.text_event
        else:
            self._encode = sse.base64_event
        self._sink: Sink
        self._timer: asyncio.TimerHandle

    def begin(self) -> None:
        """Send what there is, then follow."""
        is_binary = self._encode is sse.base64_event
        self._sink = self._reply.start(200, (*HEADERS, BASE64) if is_binary else HEADERS)
        self._tail.watch(self._pump)
        self._context.live.add(self.end)
        delay_s = self._context.settings.sse_ms / 1000
        self._timer = asyncio.get_running_loop().call_later(delay_s, self.end)
        self._sink.on_drain(self._pump)
        self._sink.on_disconnect(self._forget)
        self._pump()

    def end(self) -> None:
        """Close the connection properly; the client comes back with its last offset."""
        self._forget()
        self._sink.close()

    def _forget(self) -> None:
        self._is_over = True
        self._tail.unwatch(self._pump)
        self._context.live.discard(self.end)
        self._timer.cancel()

    def _pump(self) -> None:
        tail = self._tail
        event = tail.live_event
        if (
            event is not None
            and event.start == self._index
            and not tail.is_removed
            and tail.life is _LIVE
            and not self._is_over
            and not self._is_fetching
            and not event.is_closed
            and self._fits(event)
            and not self._sink.is_paused
        ):
            # The way of nearly every delivery: one reader was given the event, here is another.
            self._index = event.end
            self._sink.write(event.data)
            return
        while not self._is_over and not self._sink.is_paused and not self._is_fetching:
            if self._index == tail.index:
                self._at_end()
                return
            event = tail.live_event
            if event is not None and self._fits(event):
                self._give(event.data, event.end, is_closed=event.is_closed)
                continue
            page = self._context.engine.read_hot(
                tail, self._index, self._context.settings.page_bytes, self._limit
            )
            if page is None:
                self._is_fetching = True
                self._reply.spawn(self._fetch())
                return
            self._send(page)

    async def _fetch(self) -> None:
        page = await self._context.engine.read(
            self._tail, self._index, self._context.settings.page_bytes, self._limit
        )
        self._is_fetching = False
        if self._is_over:
            return
        if isinstance(page, Refused):
            # The status is long sent: all that is left is to end, and to refuse the next request.
            self.end()
            return
        self._send(page)
        self._pump()

    def _fits(self, event: LiveEvent) -> bool:
        """Tell whether the bytes that another reader was given are just what this one needs.

        All readers at the end of a stream get the same: encoded once, kept until the next event.
        One who only comes now gets an event of its own, with a cursor of this moment.
        """
        tail = self._tail
        return (
            self._has_spoken
            and event.start == self._index
            and event.end == tail.index
            and event.is_closed == tail.is_closed
            and event.end - event.start <= self._limit
            and (self._cursor is None or event.cursor is None or self._cursor < event.cursor)
        )

    def _send(self, page: Page) -> None:
        tail = self._tail
        is_current = page.end == tail.index
        is_closed = is_current and tail.is_closed
        cursor = None if is_closed else self._context.cursor(self._cursor)
        data = self._encode(page.parts) + sse.control_event(
            tail.offset_at(page.end), cursor, is_current=is_current, is_closed=is_closed
        )
        if is_current:
            tail.live_event = LiveEvent(self._index, page.end, is_closed, cursor, data)
        self._give(data, page.end, is_closed=is_closed)

    def _give(self, data: bytes, end: int, *, is_closed: bool) -> None:
        self._index = end
        self._has_spoken = True
        self._sink.write(data)
        if is_closed:
            self.end()

    def _at_end(self) -> None:
        tail = self._tail
        if tail.is_closed:
            self._sink.write(sse.control_event(tail.offset, None, is_current=True, is_closed=True))
            self.end()
        elif tail.is_removed or tail.life:
            self.end()
        elif not self._has_spoken:
            self._has_spoken = True
            cursor = self._context.cursor(self._cursor)
            self._sink.write(
                sse.control_event(tail.offset, cursor, is_current=True, is_closed=False)
            )
