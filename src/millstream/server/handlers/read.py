"""Read a stream: metadata, catch-up pages, and the way to the live modes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO
from millstream.server.context import Context, refuse
from millstream.server.handlers.long_poll import LongPoll
from millstream.server.handlers.page import CLOSED, CURRENT, send_page
from millstream.server.handlers.sse import Session
from millstream.server.http import Response
from millstream.wire.fields import rfc3339
from millstream.wire.read import Mode, Wanted, parse

if TYPE_CHECKING:
    from millstream.engine.tails import Tail
    from millstream.server.http import Reply, Request

NO_STORE = (b"cache-control", b"no-store")


def head(context: Context, name: str, _request: Request, reply: Reply) -> None:
    """HEAD: what the stream is and where its tail is. Does not slide a TTL."""
    tail = context.engine.find(name)
    if isinstance(tail, Refused):
        _refuse_missing(context, name, tail, reply)
        return
    headers = [
        (b"content-type", tail.content_type.encode("latin-1")),
        (b"stream-next-offset", tail.offset.encode()),
        NO_STORE,
    ]
    if tail.ttl_s is not None:
        headers.append((b"stream-ttl", b"%d" % tail.ttl_s))
    if tail.expires_at_ms is not None:
        headers.append((b"stream-expires-at", rfc3339(tail.expires_at_ms).encode()))
    if tail.is_closed:
        headers.append(CLOSED)
    reply.send(Response(200, headers))


def read(context: Context, name: str, request: Request, reply: Reply) -> None:
    """GET: a page of messages now (catch-up), or the next ones when they come (live)."""
    wanted = parse(request.query)
    if isinstance(wanted, Refused):
        reply.send(refuse(wanted))
        return
    tail = context.engine.find(name)
    if isinstance(tail, Refused):
        _refuse_missing(context, name, tail, reply)
        return
    index = start_index(tail, wanted)
    if isinstance(index, Refused):
        reply.send(refuse(index))
        return
    context.engine.touch(tail)
    if wanted.mode is Mode.SSE:
        Session(context, tail, index, wanted, reply).begin()
    elif wanted.mode is Mode.LONG_POLL and index == tail.index:
        LongPoll(context, tail, wanted, request, reply).begin()
    elif wanted.start is None:
        reply.send(_at_tail(tail))
    else:
        send_page(context, tail, index, wanted, request, reply)


def _refuse_missing(context: Context, name: str, refused: Refused, reply: Reply) -> None:
    """Refuse, but only once the end of a stream that has just expired is durable."""
    if not context.engine.end_expired(name, lambda: reply.send(refuse(refused))):
        reply.send(refuse(refused))


def start_index(tail: Tail, wanted: Wanted) -> int | Refused:
    """Return the position to read from, or why the stream does not have it."""
    start = wanted.start
    if start is None:
        return tail.index
    if start == ZERO:
        return 0
    if start.is_point_in_time:
        return tail.index_since(start.time_ms)
    if not tail.knows(start):
        return Refused(
            code=Code.OFFSET_GONE,
            detail=f"offset {start.text()} is not a position of this stream; it may belong to"
            " a stream that was deleted and created again at this path",
            field="offset",
            next_offset=tail.offset,
        )
    return start.index


def _at_tail(tail: Tail) -> Response:
    headers = [
        (b"content-type", tail.content_type.encode("latin-1")),
        (b"stream-next-offset", tail.offset.encode()),
        CURRENT,
        NO_STORE,
    ]
    if tail.is_closed:
        headers.append(CLOSED)
    return Response(200, headers, b"[]" if tail.is_json else b"")
