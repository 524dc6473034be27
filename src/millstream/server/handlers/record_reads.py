"""Read records: what is behind an offset now, or what comes next, also where no stream is yet."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.core.events import StreamCreated
from millstream.core.offsets import START, ZERO
from millstream.server.context import Context, refuse
from millstream.server.http import Response
from millstream.wire.records import offset_text, render_records

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from millstream.core.events import Event
    from millstream.engine.engine import Engine
    from millstream.engine.tails import Tail
    from millstream.server.http import Reply
    from millstream.wire.records import Wanted

_log = logging.getLogger(__name__)

JSON_HEADERS = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))


class Arrivals:
    """Who waits for a stream that does not exist yet."""

    def __init__(self, engine: Engine) -> None:
        """Listen to ``engine`` for as long as it lives."""
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}
        engine.observe(self._created)

    def __len__(self) -> int:
        """Return for how many paths somebody waits."""
        return len(self._waiting)

    def wait(self, path: str, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when a stream is made at ``path``."""
        self._waiting.setdefault(path, {})[callback] = None

    def leave(self, path: str, callback: Callable[[], None]) -> None:
        """Call ``callback`` no more; unknown ones do not matter."""
        waiting = self._waiting.get(path)
        if waiting is not None:
            waiting.pop(callback, None)
            if not waiting:
                del self._waiting[path]

    def _created(self, event: Event) -> None:
        if isinstance(event, StreamCreated):
            for callback in self._waiting.pop(event.path, ()):
                try:
                    callback()
                except Exception:  # noqa: BLE001 - reported below, and the work goes on
                    # One reader's trouble must not keep the others waiting.
                    _log.exception("a reader failed on the creation of its stream")


class RecordRead:
    """One GET. Looking and registering happen in one turn of the loop: nothing comes between."""

    __slots__ = ("_arrivals", "_context", "_index", "_path", "_reply", "_tail", "_timer", "_wanted")

    def __init__(
        self, context: Context, arrivals: Arrivals, path: str, wanted: Wanted, reply: Reply
    ) -> None:
        """Read the stream at ``path``."""
        self._context = context
        self._arrivals = arrivals
        self._path = path
        self._wanted = wanted
        self._reply = reply
        self._tail: Tail | None = None
        self._index = 0
        self._timer: asyncio.TimerHandle | None = None

    def begin(self) -> None:
        """Answer with what is there, or wait for something to be there."""
        engine = self._context.engine
        tail = engine.find(self._path)
        if isinstance(tail, Refused):
            if tail.code is not Code.STREAM_NOT_FOUND:
                self._reply.send(refuse(tail))
            elif not engine.end_expired(self._path, self._without_stream):
                self._without_stream()
            return
        index = _start_index(tail, self._wanted)
        if isinstance(index, Refused):
            self._reply.send(refuse(index))
            return
        engine.touch(tail)
        self._tail, self._index = tail, index
        if index < tail.index:
            self._send_page(tail)
        elif tail.is_closed or not self._wanted.timeout_s:
            self._send(())
        else:
            tail.watch(self._changed)
            self._wait()

    def _without_stream(self) -> None:
        """Read a stream that is not there as an empty one."""
        if self._reply.is_disconnected:
            return
        start = self._wanted.start
        if start is not None and start != ZERO and not start.is_point_in_time:
            self._reply.send(refuse(_gone(offset_text(start.time_ms, start.index), START)))
        elif not self._wanted.timeout_s:
            self._send(())
        else:
            self._wait()
            # It may be there: made while the end of the one before it became durable.
            self._join()

    def _wait(self) -> None:
        self._context.live.add(self._send_nothing)
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._wanted.timeout_s, self._send_nothing)
        self._reply.on_disconnect(self._end)

    def _join(self) -> None:
        """Go on with the stream, as one who was there when it was made, or wait for it."""
        tail = self._context.engine.find(self._path)
        if isinstance(tail, Refused):
            self._arrivals.wait(self._path, self._join)
            return
        index = _start_index(tail, self._wanted)
        if isinstance(index, Refused):
            self._end()
            self._reply.send(refuse(index))
            return
        # Who waits for the next record has come before all that were appended to this stream.
        self._index = tail.extents.base if self._wanted.start is None else index
        self._tail = tail
        tail.watch(self._changed)
        self._changed()

    def _changed(self) -> None:
        tail = self._tail
        assert tail is not None
        if tail.is_removed or tail.life:
            self._send_nothing()
        elif tail.index > self._index:
            self._end()
            self._send_page(tail)
        elif tail.is_closed:
            self._send_nothing()

    def _send_page(self, tail: Tail) -> None:
        async def fetch() -> None:
            page_bytes = self._context.settings.page_bytes
            read = self._context.engine.read_messages
            found = await read(tail, self._index, page_bytes, self._wanted.limit)
            if isinstance(found, Refused):
                self._reply.send(refuse(found))
            else:
                self._send(found)

        self._reply.spawn(fetch())

    def _send_nothing(self) -> None:
        self._end()
        self._send(())

    def _send(self, records: Sequence[tuple[int, int, bytes]]) -> None:
        self._reply.send(Response(200, JSON_HEADERS, render_records(records)))

    def _end(self) -> None:
        self._arrivals.leave(self._path, self._join)
        if self._tail is not None:
            self._tail.unwatch(self._changed)
        self._context.live.discard(self._send_nothing)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _start_index(tail: Tail, wanted: Wanted) -> int | Refused:
    if not tail.is_json:
        return Refused(
            code=Code.CONTENT_TYPE_MISMATCH,
            detail=f"records need a stream of application/json; this one is {tail.content_type}",
            next_offset=tail.offset,
        )
    start = wanted.start
    if start is None:
        return tail.index
    if start == ZERO:
        return 0
    if start.is_point_in_time:
        return tail.index_since(start.time_ms)
    if not tail.knows(start):
        return _gone(offset_text(start.time_ms, start.index), tail.offset)
    return start.index


def _gone(offset: str, next_offset: str) -> Refused:
    return Refused(
        code=Code.OFFSET_GONE,
        detail=f"offset {offset} is not one of this stream; it may belong to a stream that was"
        " deleted and created again at this path",
        field="offset",
        next_offset=next_offset,
    )
