"""PUT on a stream: headers and body to the command, the answer to status and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from millstream.core import media
from millstream.core.errors import Refused
from millstream.core.offsets import ZERO, Position, format_offset, parse_offset
from millstream.core.streams.commands import Body, Created, ForkRequest
from millstream.wire.bodies import bytes_body, json_body
from millstream.wire.fields import (
    is_true,
    media_type,
    plain_integer,
    refuse_header,
    rfc3339_ms,
)
from millstream.wire.names import source_name, url_path
from millstream.wire.problem import Rendered, render

if TYPE_CHECKING:
    from collections.abc import Mapping


class Wanted(NamedTuple):
    """What a PUT asks for, before a fork point is resolved."""

    content_type: str | None
    ttl_s: int | None
    expires_at_ms: int | None
    is_closed: bool
    fork: ForkRequest | None


def parse(headers: Mapping[bytes, bytes]) -> Wanted | Refused:
    """Return what the headers of a creation ask for."""
    ttl_s: int | None = None
    if (raw := headers.get(b"stream-ttl")) is not None:
        seconds = plain_integer(raw, "Stream-TTL")
        if isinstance(seconds, Refused):
            return seconds
        ttl_s = seconds
    expires_at_ms: int | None = None
    if (raw := headers.get(b"stream-expires-at")) is not None:
        if ttl_s is not None:
            return refuse_header("Stream-Expires-At", "cannot go together with Stream-TTL")
        expires_at_ms = rfc3339_ms(raw.decode("latin-1"))
        if expires_at_ms is None:
            return refuse_header(
                "Stream-Expires-At", "must be an RFC 3339 time such as 2030-01-31T12:00:00Z"
            )
    fork = _parse_fork(headers)
    if isinstance(fork, Refused):
        return fork
    return Wanted(
        media_type(headers.get(b"content-type")),
        ttl_s,
        expires_at_ms,
        is_true(headers.get(b"stream-closed")),
        fork,
    )


def _parse_fork(headers: Mapping[bytes, bytes]) -> ForkRequest | Refused | None:
    source = headers.get(b"stream-forked-from")
    raw_anchor = headers.get(b"stream-fork-offset")
    raw_sub = headers.get(b"stream-fork-sub-offset")
    if source is None:
        if raw_anchor is not None or raw_sub is not None:
            name = "Stream-Fork-Offset" if raw_anchor is not None else "Stream-Fork-Sub-Offset"
            return refuse_header(name, "needs Stream-Forked-From")
        return None
    path = source_name(source)
    if isinstance(path, Refused):
        return path
    anchor: Position | None = None
    if raw_anchor is not None:
        value = raw_anchor.decode("latin-1")
        anchor = ZERO if value == "-1" else parse_offset(value)
        if anchor is None:
            return refuse_header(
                "Stream-Fork-Offset", "must be an offset as Stream-Next-Offset gives it"
            )
    sub_offset = 0
    if raw_sub is not None:
        number = plain_integer(raw_sub, "Stream-Fork-Sub-Offset")
        if isinstance(number, Refused):
            return number
        sub_offset = number
    if sub_offset and anchor is None:
        return refuse_header(
            "Stream-Fork-Sub-Offset", "needs Stream-Fork-Offset: nothing lies behind the tail"
        )
    return ForkRequest(path, anchor, sub_offset)


def parse_body(content_type: str | None, body: bytes) -> Body | Refused:
    """Return the first messages of a stream of this content type."""
    if body and content_type is not None and media.is_json(content_type):
        return json_body(body, may_be_empty=True)
    return bytes_body(body)


def created_lines(answer: Created, path: str, base_url: str) -> bytes:
    """Return the header lines of the plainest answer: made just now, and open."""
    tail = answer.tail
    return (
        f"content-type: {answer.content_type}\r\n"
        f"stream-next-offset: {format_offset(tail.time_ms, tail.index)}\r\n"
        f"location: {base_url}{url_path(path)}\r\n"
    ).encode("latin-1", "replace")


def render_answer(answer: object, path: str, base_url: str) -> Rendered:
    """Return the HTTP answer to a creation."""
    if isinstance(answer, Refused):
        return render(answer)
    assert isinstance(answer, Created)
    headers = [
        (b"content-type", answer.content_type.encode("latin-1")),
        (b"stream-next-offset", answer.tail.text().encode()),
    ]
    if answer.is_new:
        headers.append((b"location", (base_url + url_path(path)).encode("latin-1", "replace")))
    if answer.is_closed:
        headers.append((b"stream-closed", b"true"))
    return Rendered(201 if answer.is_new else 200, headers, b"")
