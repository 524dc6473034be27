"""Answer with one page of messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.errors import Refused
from millstream.server.context import Context, refuse
from millstream.server.http import Response
from millstream.wire.read import Mode, Wanted, etag, is_cached

if TYPE_CHECKING:
    from millstream.engine.pages import Page
    from millstream.engine.tails import Tail
    from millstream.server.http import Reply, Request

CACHE_PAGE = b"public, max-age=60, stale-while-revalidate=300"
_JOIN_BELOW_BYTES = 2048

CLOSED = (b"stream-closed", b"true")
CURRENT = (b"stream-up-to-date", b"true")


def send_page(
    context: Context, tail: Tail, index: int, wanted: Wanted, request: Request, reply: Reply
) -> None:
    """Answer with the page behind ``index``, from memory at once or from disk a little later."""
    page_bytes = context.settings.page_bytes
    page = context.engine.read_hot(tail, index, page_bytes, wanted.limit)
    if page is not None:
        reply.send(page_response(context, tail, index, page, wanted, request))
        return

    async def fetch() -> None:
        cold = await context.engine.read(tail, index, page_bytes, wanted.limit)
        if isinstance(cold, Refused):
            reply.send(refuse(cold))
        else:
            reply.send(page_response(context, tail, index, cold, wanted, request))

    reply.spawn(fetch())


def page_response(
    context: Context, tail: Tail, index: int, page: Page, wanted: Wanted, request: Request
) -> Response:
    """Return the answer that carries ``page``."""
    is_current = page.end >= tail.index
    is_eof = is_current and tail.is_closed
    tag = etag(tail.stream_id, tail.created_ms, (index, page.end), is_eof=is_eof)
    headers = [
        (b"content-type", tail.content_type.encode("latin-1")),
        (b"stream-next-offset", tail.offset_at(page.end).encode()),
        (b"etag", tag),
        (b"cache-control", CACHE_PAGE),
    ]
    if is_current:
        headers.append(CURRENT)
    if is_eof:
        headers.append(CLOSED)
    if wanted.mode is Mode.LONG_POLL:
        headers.append((b"stream-cursor", b"%d" % context.cursor(wanted.cursor)))
    elif is_cached(request.header(b"if-none-match"), tag):
        return Response(304, headers[1:])
    return Response(200, headers, json_array(page.parts) if tail.is_json else page.parts)


def json_array(parts: list[bytes]) -> bytes | list[bytes]:
    """Return runs of JSON values as one array: large ones as they are, small ones joined.

    Below some size one more entry for the kernel costs more than the copy.
    """
    if sum(map(len, parts)) <= len(parts) * _JOIN_BELOW_BYTES:
        return b"[" + b",".join(parts) + b"]"
    array = [b","] * (2 * len(parts) + 1)
    array[1::2] = parts
    array[0], array[-1] = b"[", b"]"
    return array
