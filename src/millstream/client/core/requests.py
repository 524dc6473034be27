"""Requests as data: what the client asks, before headers of the caller are added.

``Request.is_repeatable`` is the one place that says what may be sent twice.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

import msgspec

from millstream.client.errors import BadOption

NAME_SAFE: Final = "/:@!$&()*+,;=~-._"
START: Final = "-1"
NOW: Final = "now"


class Operation(enum.Enum):
    """What a request is for; the same status means different things to different operations."""

    CREATE = "create"
    APPEND = "append"
    CLOSE = "close"
    GRANT = "grant"
    HEAD = "head"
    DELETE = "delete"
    READ = "read"


class Live(enum.Enum):
    """How a live read waits for more."""

    LONG_POLL = "long-poll"
    SSE = "sse"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One HTTP request. ``is_repeatable``: sending it twice does what sending it once does."""

    operation: Operation
    method: str
    url: str
    query: Mapping[str, str] = msgspec.field(default_factory=dict)
    headers: Mapping[str, str] = msgspec.field(default_factory=dict)
    body: bytes = b""
    is_repeatable: bool = True
    live: Live | None = None

    @property
    def target(self) -> str:
        """The URL with its query, sorted by name so that equal requests are equal to caches."""
        parts = urlsplit(self.url)
        # What the protocol asks for wins over a parameter of the same name in the stream's URL.
        given = {**dict(parse_qsl(parts.query, keep_blank_values=True)), **self.query}
        query = urlencode(sorted(given.items()), quote_via=quote)
        return urlunsplit((parts.scheme, parts.netloc, parts.path, query, ""))

    def with_extras(self, headers: Mapping[str, str], query: Mapping[str, str]) -> Request:
        """Add headers and parameters of the caller; those of the protocol win."""
        own = {name.lower() for name in self.headers}
        return msgspec.structs.replace(
            self,
            headers={**{n: v for n, v in headers.items() if n.lower() not in own}, **self.headers},
            query={**query, **self.query},
        )


class Stamp(msgspec.Struct, frozen=True):
    """Which batch of which life of which producer this is; makes an append repeatable."""

    producer_id: str
    epoch: int
    seq: int

    def headers(self) -> dict[str, str]:
        """Return the three headers."""
        return {
            "Producer-Id": self.producer_id,
            "Producer-Epoch": str(self.epoch),
            "Producer-Seq": str(self.seq),
        }


class Creation(msgspec.Struct, frozen=True, kw_only=True):
    """What to create. ``expires_at`` is RFC 3339; not together with ``ttl_s``."""

    content_type: str | None = None
    ttl_s: int | None = None
    expires_at: str | None = None
    is_closed: bool = False
    body: bytes = b""
    fork_from: str | None = None
    fork_offset: str | None = None
    fork_sub_offset: int | None = None

    def __post_init__(self) -> None:
        """Refuse what no server could accept; raises BadOption."""
        if self.ttl_s is not None and self.expires_at is not None:
            raise BadOption("ttl_s and expires_at exclude each other")
        if self.ttl_s is not None and self.ttl_s < 0:
            raise BadOption("ttl_s must not be negative")
        if self.fork_from is None and (self.fork_offset or self.fork_sub_offset is not None):
            raise BadOption("fork_offset and fork_sub_offset need fork_from")
        if self.fork_sub_offset is not None and self.fork_sub_offset < 0:
            raise BadOption("fork_sub_offset must not be negative")


def url_of(server: str, root: str, name: str) -> str:
    """Return the URL of a stream; a full http(s) URL is taken as it is."""
    if name.startswith(("http://", "https://")):
        return name
    if not name.strip("/"):
        raise BadOption("a stream needs a name")
    path = "/".join(
        part for part in (root.strip("/"), quote(name.strip("/"), safe=NAME_SAFE)) if part
    )
    return f"{server.rstrip('/')}/{path}"


def create(url: str, creation: Creation) -> Request:
    """PUT: create a stream or a fork, or confirm that it is there."""
    ttl = None if creation.ttl_s is None else str(creation.ttl_s)
    sub = None if creation.fork_sub_offset is None else str(creation.fork_sub_offset)
    headers = {
        "Content-Type": creation.content_type,
        "Stream-TTL": ttl,
        "Stream-Expires-At": creation.expires_at,
        "Stream-Closed": "true" if creation.is_closed else None,
        "Stream-Forked-From": creation.fork_from,
        "Stream-Fork-Offset": creation.fork_offset,
        "Stream-Fork-Sub-Offset": sub,
    }
    return Request(
        operation=Operation.CREATE,
        method="PUT",
        url=url,
        headers={name: value for name, value in headers.items() if value is not None},
        body=creation.body,
    )


def append(
    url: str,
    content_type: str,
    body: bytes,
    *,
    stamp: Stamp | None = None,
    seq: str | None = None,
    if_match: str | None = None,
) -> Request:
    """POST: append messages. Only a stamped append is repeatable."""
    headers = {"Content-Type": content_type, **(stamp.headers() if stamp else {})}
    if seq is not None:
        headers["Stream-Seq"] = seq
    if if_match is not None:
        headers["If-Match"] = if_match if if_match == "*" else f'"{if_match}"'
    return Request(
        operation=Operation.APPEND,
        method="POST",
        url=url,
        headers=headers,
        body=body,
        is_repeatable=stamp is not None,
    )


def close(
    url: str, *, content_type: str | None = None, body: bytes = b"", stamp: Stamp | None = None
) -> Request:
    """POST: close the stream behind a last message, if there is one.

    Repeatable without a message (closing twice is closing once) or with a stamp.
    """
    headers = {"Stream-Closed": "true", **(stamp.headers() if stamp else {})}
    if body and content_type is not None:
        headers["Content-Type"] = content_type
    return Request(
        operation=Operation.CLOSE,
        method="POST",
        url=url,
        headers=headers,
        body=body,
        is_repeatable=stamp is not None or not body,
    )


def grant(url: str, producer_id: str) -> Request:
    """POST: have the server grant the producer's next epoch.

    Repeatable: a repeated grant wastes an epoch, and fences nobody but the one before it.
    """
    headers = {"Producer-Id": producer_id, "Producer-Epoch": "next"}
    return Request(operation=Operation.GRANT, method="POST", url=url, headers=headers)


def head(url: str) -> Request:
    """HEAD: what the stream is and where its tail is."""
    return Request(operation=Operation.HEAD, method="HEAD", url=url)


def delete(url: str) -> Request:
    """DELETE: delete the stream."""
    return Request(operation=Operation.DELETE, method="DELETE", url=url)


def read(url: str, offset: str, *, live: Live | None = None, cursor: str | None = None) -> Request:
    """GET: a page from ``offset`` on, now or (live) when there is one."""
    query = {"offset": offset}
    if live is not None:
        query["live"] = live.value
        if cursor is not None:
            query["cursor"] = cursor
    # A proxy that compresses a live answer holds events back to do it well.
    headers = (
        {"Accept": "text/event-stream", "Accept-Encoding": "identity"} if live is Live.SSE else {}
    )
    return Request(
        operation=Operation.READ, method="GET", url=url, query=query, headers=headers, live=live
    )
