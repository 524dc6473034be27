"""List streams by prefix, page by page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from millstream.core.errors import Refused
from millstream.core.streams.state import Life
from millstream.server.context import Context, refuse
from millstream.server.http import Response
from millstream.wire.fields import query_values, refuse_query, rfc3339, single

if TYPE_CHECKING:
    from millstream.engine.tails import Tail
    from millstream.server.http import Reply, Request

LIMIT_DEFAULT = 100
LIMIT_MAX = 1000

_encoder = msgspec.json.Encoder()


def list_streams(context: Context, request: Request, reply: Reply) -> None:
    """GET /v1/streams: live streams in order of their paths."""
    values = query_values(request.query)
    if isinstance(values, Refused):
        reply.send(refuse(values))
        return
    prefix, after, limit = (single(values, name) for name in ("prefix", "after", "limit"))
    for value in (prefix, after, limit):
        if isinstance(value, Refused):
            reply.send(refuse(value))
            return
    assert not isinstance(prefix, Refused)
    assert not isinstance(after, Refused)
    count = LIMIT_DEFAULT
    if limit is not None:
        text = str(limit)
        is_number = text.isascii() and text.isdigit() and len(text) <= len(str(LIMIT_MAX))
        count = int(text) if is_number else 0
        if not 1 <= count <= LIMIT_MAX:
            reply.send(refuse(refuse_query("limit", f"must be from 1 to {LIMIT_MAX}")))
            return
    found: list[Tail] = []
    next_after = None
    for tail in context.engine.views.listing(prefix or "", after or ""):
        if tail.life is not Life.LIVE:
            continue
        if len(found) == count:
            next_after = found[-1].path
            break
        found.append(tail)
    body = {"streams": [describe(tail) for tail in found], "next_after": next_after}
    headers = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
    reply.send(Response(200, headers, _encoder.encode(body)))


def describe(tail: Tail) -> dict[str, object]:
    """Return a stream's entry in the listing."""
    return {
        "path": tail.path,
        "content_type": tail.content_type,
        "next_offset": tail.offset,
        "closed": tail.is_closed,
        "messages": tail.index,
        "bytes": tail.stored_bytes,
        "created_at": rfc3339(tail.created_ms),
        "updated_at": rfc3339(max(tail.time_ms, tail.created_ms)),
        "ttl_s": tail.ttl_s,
        "expires_at": rfc3339(tail.expires_at_ms) if tail.expires_at_ms is not None else None,
        "forked_from": tail.source.path if tail.source is not None else None,
    }
