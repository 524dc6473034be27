"""Read a range of messages: from memory where they are hot, from the log where they are not.

A page is planned on the event loop without I/O; what lies on disk is then fetched by a worker
thread. Extents are immutable, so nothing can change between the two.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, NamedTuple

from millstream.core.events import Appended
from millstream.engine.extents import unpack_place
from millstream.format.events import decode_event
from millstream.format.frame import spans_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.engine.hot import Chunk
    from millstream.engine.tails import Tail


class Page(NamedTuple):
    """Messages behind a position, up to position ``end``; ``parts`` are their bytes in order."""

    parts: list[bytes]
    end: int


class Message(NamedTuple):
    """One message: when it was committed, its running index (the position behind it), its bytes."""

    time_ms: int
    end: int
    data: bytes


class Piece(NamedTuple):
    """A part of one append: messages (start, stop], hot or still to be fetched."""

    stream_id: int
    first: int
    end: int
    start: int
    stop: int
    chunk: Chunk | None
    place: int
    frame_bytes: int


class Plan(NamedTuple):
    """What a page consists of."""

    pieces: list[Piece]
    end: int
    is_hot: bool


def hot_page(tail: Tail, index: int, bytes_max: int, count_max: int) -> Page | None:
    """Return the page behind ``index`` if it is made of whole appends that are all in memory.

    It is the page that ``plan`` would choose, without a look at each append: nearly all reads
    are of this kind, and a large page has thousands.
    """
    extents, hot = tail.extents, tail.hot
    if hot is None or not extents.base <= index < tail.index:
        return None
    number = extents.holding(index)
    stop_at = min(tail.index, index + count_max)
    behind, is_full = extents.run(number, stop_at, bytes_max)
    if behind == number or extents.row(number).first != index:
        return None
    end = extents.row(behind - 1).end
    if end < stop_at and not is_full:
        return None
    parts = hot.parts(number, behind)
    return Page(parts, end) if parts is not None else None


def plan(tail: Tail, index: int, bytes_max: int, count_max: int) -> Plan:
    """Choose the appends that make up the page behind ``index``; always at least one."""
    pieces: list[Piece] = []
    size = 0
    is_hot = True
    limit_count = index + count_max
    for owner, until in _owners(tail, index):
        stop_at = min(until, limit_count)
        number = owner.extents.holding(index)
        while index < stop_at and size < bytes_max:
            extent = owner.extents.row(number)
            chunk = owner.hot.get(number) if owner.hot is not None else None
            is_hot = is_hot and chunk is not None
            stop = min(extent.end, stop_at)
            pieces.append(
                Piece(
                    owner.stream_id,
                    extent.first,
                    extent.end,
                    index,
                    stop,
                    chunk,
                    extent.place,
                    extent.frame_bytes,
                )
            )
            size += extent.frame_bytes
            index = stop
            number += 1
        if index >= limit_count or size >= bytes_max:
            break
    return Plan(pieces, index, is_hot)


def _owners(tail: Tail, index: int) -> list[tuple[Tail, int]]:
    """Return who holds what behind ``index``: sources first, each up to where its fork began."""
    until = tail.index
    owners = [(tail, until)]
    while index < tail.extents.base and tail.source is not None:
        # A fork may leave its source before the point at which that one left its own.
        until, tail = min(until, tail.extents.base), tail.source
        if until > tail.extents.base:
            owners.append((tail, until))
    owners.reverse()
    return owners


def assemble(found: Plan, *, is_json: bool) -> Page:
    """Cut the chosen messages out of their appends; every piece must have its chunk by now."""
    parts = [_cut(piece, is_json=is_json) for piece in found.pieces]
    return Page(parts, found.end)


def separate(found: Plan, tail: Tail) -> list[Message]:
    """Return the chosen messages one by one; every piece must have its chunk by now."""
    gap = 1 if tail.is_json else 0
    messages: list[Message] = []
    for piece in found.pieces:
        chunk = piece.chunk
        assert chunk is not None
        # The messages of one append were committed together.
        time_ms = tail.time_at(piece.stop)
        if isinstance(chunk, bytes):
            messages.append(Message(time_ms, piece.stop, chunk))
            continue
        data, packed = chunk
        lengths = array("I", packed)
        skip = piece.start - piece.first
        at = sum(lengths[:skip]) + skip * gap
        for index in range(piece.start, piece.stop):
            length = lengths[index - piece.first]
            messages.append(Message(time_ms, index + 1, data[at : at + length]))
            at += length + gap
    return messages


def fetch(found: Plan, read: Callable[[int, int, int], bytes]) -> Plan:
    """Fill in what is not in memory, with ``read(ordinal, position, length)``. Blocks."""
    pieces = [
        piece if piece.chunk is not None else piece._replace(chunk=_load(piece, read))
        for piece in found.pieces
    ]
    return found._replace(pieces=pieces, is_hot=True)


def _load(piece: Piece, read: Callable[[int, int, int], bytes]) -> Chunk:
    ordinal, position = unpack_place(piece.place)
    raw = read(ordinal, position, piece.frame_bytes)
    for span in spans_of(raw):
        event = decode_event(raw[span.meta_at : span.meta_at + span.meta_length])
        if (
            isinstance(event, Appended)
            and event.stream_id == piece.stream_id
            and event.index == piece.first
        ):
            data = raw[span.data_at : span.data_at + span.data_length]
            return (data, event.lengths) if event.lengths else data
    message = f"the frame at {ordinal}:{position} holds no message of stream {piece.stream_id}"
    raise LookupError(message)


def _cut(piece: Piece, *, is_json: bool) -> bytes:
    chunk = piece.chunk
    assert chunk is not None
    if isinstance(chunk, bytes):
        return chunk
    data, packed = chunk
    if piece.start == piece.first and piece.stop == piece.end:
        return data
    lengths = array("I", packed)
    gap = 1 if is_json else 0
    skip = piece.start - piece.first
    take = lengths[skip : skip + piece.stop - piece.start]
    begin = sum(lengths[:skip]) + skip * gap
    return data[begin : begin + sum(take) + (len(take) - 1) * gap]
