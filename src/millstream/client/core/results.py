"""What the calls of a stream handle return, read from the answers."""

from __future__ import annotations

import msgspec

from millstream.client.core.answers import Answer
from millstream.client.errors import ParseError


class Created(msgspec.Struct, frozen=True, kw_only=True):
    """The stream is there.

    ``existed``: just such a stream was there before; or our own first try made it, and only its
    answer was lost.
    """

    offset: str
    existed: bool
    content_type: str | None
    is_closed: bool


class Appended(msgspec.Struct, frozen=True, kw_only=True):
    """The messages are stored; ``offset`` is behind the last one."""

    offset: str


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """The stream is closed for ever; ``offset`` is its end."""

    offset: str


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What the stream is and where its tail is at this moment."""

    offset: str
    content_type: str | None
    is_closed: bool
    ttl_s: int | None
    expires_at: str | None
    etag: str | None


def created(url: str, answer: Answer) -> Created:
    """Read the answer to a create."""
    return Created(
        offset=offset_of(url, answer),
        existed=answer.status != 201,
        content_type=answer.content_type,
        is_closed=answer.is_closed,
    )


def head(url: str, answer: Answer) -> Head:
    """Read the answer to a HEAD."""
    ttl = answer.headers.get("stream-ttl", "")
    return Head(
        offset=offset_of(url, answer),
        content_type=answer.content_type,
        is_closed=answer.is_closed,
        ttl_s=int(ttl) if ttl.isascii() and ttl.isdigit() else None,
        expires_at=answer.headers.get("stream-expires-at"),
        etag=answer.headers.get("etag"),
    )


def offset_of(url: str, answer: Answer) -> str:
    """Return the offset of an answer that must have one. Raises ParseError."""
    if answer.next_offset is None:
        raise ParseError("the answer has no Stream-Next-Offset", url=url, status=answer.status)
    return answer.next_offset
