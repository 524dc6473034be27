"""POST on a stream: headers and body to the command, the answer to status and headers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from millstream.core import media
from millstream.core.errors import Code, Refused
from millstream.core.offsets import Position, format_offset, parse_offset
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import EMPTY, Added, Append, Duplicate, Granted, GrantEpoch
from millstream.wire.bodies import bytes_body, json_body
from millstream.wire.fields import counter, is_true, media_type, refuse_header, text
from millstream.wire.problem import Rendered, render

if TYPE_CHECKING:
    from collections.abc import Mapping

_NEXT = b"next"
_CLAIM = (b"producer-id", b"producer-epoch", b"producer-seq")


class Terms(NamedTuple):
    """What the header fields of an append say, without its path and body."""

    content_type: str | None
    is_json: bool
    is_closing: bool
    claim: Claim | None
    stream_seq: str | None
    if_match: Position | None


def parse(path: str, headers: Mapping[bytes, bytes], body: bytes) -> Append | GrantEpoch | Refused:
    """Return the command of a POST; the checks before the stream is looked at are here."""
    if headers.get(b"producer-epoch") == _NEXT:
        return parse_grant(path, headers, body)
    terms = parse_terms(headers)
    return terms if isinstance(terms, Refused) else fill(path, terms, body)


def parse_terms(headers: Mapping[bytes, bytes]) -> Terms | Refused:
    """Return what the header fields ask for, or why it cannot be."""
    claim = None
    if b"producer-id" in headers or b"producer-epoch" in headers or b"producer-seq" in headers:
        found = parse_claim(headers)
        if isinstance(found, Refused):
            return found
        claim = found
    stream_seq = None
    if (raw := headers.get(b"stream-seq")) is not None:
        seq = text(raw, "Stream-Seq")
        if isinstance(seq, Refused):
            return seq
        stream_seq = seq
    if_match = None
    if (raw := headers.get(b"if-match")) is not None:
        expected = parse_if_match(raw)
        if isinstance(expected, Refused):
            return expected
        if_match = expected
    is_closing = is_true(headers.get(b"stream-closed"))
    content_type = media_type(headers.get(b"content-type"))
    is_json = content_type is not None and media.is_json(content_type)
    return Terms(content_type, is_json, is_closing, claim, stream_seq, if_match)


def fill(path: str, terms: Terms, body: bytes) -> Append | Refused:
    """Return the command that ``terms`` and a body make."""
    content_type, is_json, is_closing, claim, stream_seq, if_match = terms
    if not body:
        if not is_closing:
            return Refused(
                code=Code.EMPTY_BODY,
                detail="the body is empty; only Stream-Closed: true may come without one",
                field="body",
            )
        return Append(path, None, EMPTY, True, claim, stream_seq, if_match)
    if content_type is None:
        return refuse_header("Content-Type", "is required with a body, e.g. application/json")
    messages = json_body(body, may_be_empty=False) if is_json else bytes_body(body)
    return Append(path, content_type, messages, is_closing, claim, stream_seq, if_match)


def parse_grant(path: str, headers: Mapping[bytes, bytes], body: bytes) -> GrantEpoch | Refused:
    """Return the command that asks for an epoch; it carries nothing else."""
    for name in (b"producer-seq", b"stream-closed", b"stream-seq", b"if-match"):
        if name in headers:
            rule = f"next only asks for an epoch and goes without {name.decode().title()}"
            return refuse_header("Producer-Epoch", rule)
    if body:
        return refuse_header("Producer-Epoch", "next only asks for an epoch, without a body")
    producer_id = text(headers.get(b"producer-id", b""), "Producer-Id")
    return producer_id if isinstance(producer_id, Refused) else GrantEpoch(path, producer_id)


def parse_claim(headers: Mapping[bytes, bytes]) -> Claim | Refused:
    """Return the producer's claim; all three headers or none."""
    raw_id, raw_epoch, raw_seq = (headers.get(name) for name in _CLAIM)
    if raw_id is None or raw_epoch is None or raw_seq is None:
        return refuse_header(
            "Producer-Id", "Producer-Id, Producer-Epoch and Producer-Seq come together"
        )
    producer_id = text(raw_id, "Producer-Id")
    if isinstance(producer_id, Refused):
        return producer_id
    epoch = counter(raw_epoch, "Producer-Epoch")
    if isinstance(epoch, Refused):
        return epoch
    seq = counter(raw_seq, "Producer-Seq")
    if isinstance(seq, Refused):
        return seq
    return Claim(producer_id, epoch, seq)


def parse_if_match(raw: bytes) -> Position | Refused | None:
    """Return the tail that the append expects; ``*`` expects nothing but the stream."""
    value = raw.decode("latin-1")
    if value == "*":
        return None
    position = parse_offset(value.strip('"'))
    if position is None:
        return refuse_header("If-Match", "must be an offset as Stream-Next-Offset gives it")
    return position


def added_lines(answer: Added) -> bytes:
    """Return the header lines of the plainest answer: stored, open, no producer to tell."""
    tail = answer.tail
    return b"stream-next-offset: %016d_%016d\r\n" % (tail.time_ms, tail.index)


def render_answer(answer: object, original_offset: str | None) -> Rendered:
    """Return the HTTP answer to an append; ``original_offset`` is a duplicate's own."""
    if isinstance(answer, Added):
        headers = [
            (b"stream-next-offset", format_offset(answer.tail.time_ms, answer.tail.index).encode())
        ]
        if answer.is_closed:
            headers.append((b"stream-closed", b"true"))
        claim = answer.claim
        if claim is None:
            return Rendered(204, headers, b"")
        headers.append((b"producer-epoch", b"%d" % claim.epoch))
        headers.append((b"producer-seq", b"%d" % claim.seq))
        # A close without a message has nothing to tell beyond its headers.
        return Rendered(200 if answer.count else 204, headers, b"")
    if isinstance(answer, Duplicate):
        headers = [
            (b"producer-epoch", b"%d" % answer.claim.epoch),
            (b"producer-seq", b"%d" % answer.seq_last),
        ]
        if original_offset is not None:
            headers.append((b"stream-next-offset", original_offset.encode()))
        if answer.is_closed:
            headers.append((b"stream-closed", b"true"))
        return Rendered(204, headers, b"")
    if isinstance(answer, Granted):
        tail = format_offset(answer.tail.time_ms, answer.tail.index).encode()
        epoch = b"%d" % answer.epoch
        return Rendered(204, [(b"producer-epoch", epoch), (b"stream-next-offset", tail)], b"")
    assert isinstance(answer, Refused)
    return render(answer)
