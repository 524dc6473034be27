"""Frames: the records of the log. One command is one frame, so it happens whole or not at all.

Layout, little endian (docs/format.md): a header of 32 bytes, then the events one by one.

    u32 length        of the whole frame
    u32 crc32c        over every other byte of the frame, seeded with the data directory's id
    u64 lsn           1, 2, 3 and so on, without gaps
    u64 durable_lsn   the highest LSN known to be on disk when this frame was encoded
    u8  version, u8 kind, u16 event_count, u32 reserved = 0
    per event: u32 meta_length, u32 data_length, meta, data
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from typing import Final

import msgspec

from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort, Ended
from millstream.format.versions import FRAME_VERSION, UnknownVersion

KIND_EVENTS: Final = 0
KIND_MARK: Final = 1

HEADER_BYTES: Final = 32
EVENT_HEADER_BYTES: Final = 8
EVENTS_MAX: Final = 0xFFFF
FRAME_BYTES_MAX: Final = 0xFFFF_FFFF
# Below this a copy is cheaper than one more entry in the list of buffers.
COPY_BYTES_MAX: Final = 4096

_HEADER = struct.Struct("<IIQQBBHI")
_BEHIND_CRC = struct.Struct("<QQBBHI")
_BEHIND_CRC_ONE = struct.Struct("<QQBBHIII")
_BEHIND_CRC_AT: Final = 8
_pack_u32 = struct.Struct("<I").pack
_pack_u32_pair = struct.Struct("<II").pack
_unpack_u32_pair = struct.Struct("<II").unpack_from
_unpack_u64_pair = struct.Struct("<QQ").unpack_from

# The last eight bytes of every header: version, kind, any count, reserved zeros.
_HEADER_END = re.compile(rb"\x01[\x00\x01][\x00-\xff]{2}\x00{4}", re.DOTALL)
_HEADER_END_AT: Final = 24


class Span(msgspec.Struct, frozen=True, gc=False):
    """Where one event lies, counted from the first byte of its frame."""

    meta_at: int
    meta_length: int
    data_at: int
    data_length: int


class Frame(msgspec.Struct, frozen=True, gc=False):
    """A frame whose checksum and structure hold. ``spans`` has one entry per event."""

    lsn: int
    durable_lsn: int
    kind: int
    length: int
    spans: tuple[Span, ...]


def frame_seed(directory_id: bytes) -> int:
    """Return what the checksums of a data directory's frames start from.

    The id is random and never leaves the directory, so no client can store bytes that would pass
    for a frame of this log, and no frame of another directory passes for one either.
    """
    return crc32c(directory_id)


def frame_size(parts: Sequence[tuple[bytes, bytes | memoryview]]) -> int:
    """Return the length in bytes of the frame that ``encode_frame`` makes of ``parts``."""
    size = HEADER_BYTES + EVENT_HEADER_BYTES * len(parts)
    for meta, data in parts:
        size += len(meta) + len(data)
    return size


def data_positions(parts: Sequence[tuple[bytes, bytes | memoryview]]) -> list[int]:
    """Return where the data of each event will lie, counted from the frame's first byte."""
    positions: list[int] = []
    position = HEADER_BYTES
    for meta, data in parts:
        position += EVENT_HEADER_BYTES + len(meta)
        positions.append(position)
        position += len(data)
    return positions


def encode_frame(
    lsn: int,
    durable_lsn: int,
    kind: int,
    parts: Sequence[tuple[bytes, bytes | memoryview]],
    seed: int = 0,
) -> list[bytes | memoryview]:
    """Return the frame as buffers for one gathered write; the first holds the whole header.

    ``parts`` are (encoded event, data) pairs. Data above ``COPY_BYTES_MAX`` is handed through
    uncopied and must not change until written. Raises ValueError when the frame cannot exist
    (more than ``EVENTS_MAX`` events, more than ``FRAME_BYTES_MAX`` bytes, events in a mark).
    """
    if len(parts) == 1 and kind == KIND_EVENTS:
        # By far the most frequent frame: one event; small ones become a single buffer.
        meta, data = parts[0]
        data_length = len(data)
        length = HEADER_BYTES + EVENT_HEADER_BYTES + len(meta) + data_length
        if length > FRAME_BYTES_MAX:
            raise ValueError(_too_large(length))
        body = (
            _BEHIND_CRC_ONE.pack(
                lsn, durable_lsn, FRAME_VERSION, KIND_EVENTS, 1, 0, len(meta), data_length
            )
            + meta
        )
        if data_length <= COPY_BYTES_MAX:
            body += data
            crc = crc32c(body, crc32c(_pack_u32(length), seed))
            return [_pack_u32_pair(length, crc) + body]
        crc = crc32c(data, crc32c(body, crc32c(_pack_u32(length), seed)))
        return [_pack_u32_pair(length, crc) + body, data]
    return _encode_general(lsn, durable_lsn, kind, parts, seed)


def _encode_general(
    lsn: int,
    durable_lsn: int,
    kind: int,
    parts: Sequence[tuple[bytes, bytes | memoryview]],
    seed: int,
) -> list[bytes | memoryview]:
    length = frame_size(parts)
    if length > FRAME_BYTES_MAX:
        raise ValueError(_too_large(length))
    if len(parts) > EVENTS_MAX:
        raise ValueError(f"a frame holds at most {EVENTS_MAX} events, not {len(parts)}")
    if kind == KIND_MARK and parts:
        raise ValueError("a mark holds no events")
    small: list[bytes | memoryview] = [
        _BEHIND_CRC.pack(lsn, durable_lsn, FRAME_VERSION, kind, len(parts), 0)
    ]
    buffers: list[bytes | memoryview] = []
    for meta, data in parts:
        small.append(_pack_u32_pair(len(meta), len(data)))
        small.append(meta)
        if len(data) <= COPY_BYTES_MAX:
            small.append(data)
        else:
            buffers.append(b"".join(small))
            buffers.append(data)
            small = []
    if small:
        buffers.append(b"".join(small))
    crc = crc32c(_pack_u32(length), seed)
    for buffer in buffers:
        crc = crc32c(buffer, crc)
    buffers[0] = _pack_u32_pair(length, crc) + bytes(buffers[0])
    return buffers


def _too_large(length: int) -> str:
    return f"a frame holds at most {FRAME_BYTES_MAX} bytes, not {length}"


def decode_frame(
    buffer: bytes | memoryview, position: int = 0, seed: int = 0
) -> Frame | Ended | CutShort | Corrupt | UnknownVersion:
    """Return the frame that starts at ``position``, or why there is none.

    Every byte string gets an answer; nothing is copied and no memory is taken beyond one
    ``Span`` per event that is really there. ``CutShort`` means only that the buffer ends first:
    the caller who knows that the file ends there too treats it as a defect.
    """
    available = len(buffer) - position
    if available < HEADER_BYTES:
        return _short_header(buffer, position)
    length, crc, lsn, durable_lsn, version, kind, count, reserved = _HEADER.unpack_from(
        buffer, position
    )
    if length == 0:
        return Ended()
    if length < HEADER_BYTES:
        return Corrupt(f"a frame of {length} bytes is shorter than its own header")
    if length > available:
        return CutShort(length)
    view = buffer if isinstance(buffer, memoryview) else memoryview(buffer)
    covered = view[position + _BEHIND_CRC_AT : position + length]
    if crc32c(covered, crc32c(_pack_u32(length), seed)) != crc:
        return Corrupt("the frame does not match its checksum")
    if version != FRAME_VERSION:
        return UnknownVersion("the frame", version, FRAME_VERSION)
    if kind > KIND_MARK or reserved != 0 or durable_lsn >= lsn:
        return Corrupt("the frame's header contradicts itself")
    spans = _spans(buffer, position, length, count)
    if spans is None or (kind == KIND_MARK and count):
        return Corrupt("the frame's events do not fill the frame")
    return Frame(lsn, durable_lsn, kind, length, spans)


def spans_of(frame: bytes) -> tuple[Span, ...]:
    """Return where the events lie in the bytes of one frame that was verified already.

    Raises ValueError for what cannot be a frame.
    """
    length, _, _, _, _, _, count, _ = _HEADER.unpack_from(frame)
    spans = _spans(frame, 0, length, count) if length == len(frame) else None
    if spans is None:
        raise ValueError("these bytes are not one whole frame")
    return spans


def _short_header(buffer: bytes | memoryview, position: int) -> Ended | CutShort:
    rest = bytes(buffer[position:])
    # Fewer bytes than a header behind the last frame, all zero, are an ordinary end of file.
    return CutShort(HEADER_BYTES) if any(rest) else Ended()


def _spans(
    buffer: bytes | memoryview, position: int, length: int, count: int
) -> tuple[Span, ...] | None:
    at = HEADER_BYTES
    spans: list[Span] = []
    for _ in range(count):
        if at + EVENT_HEADER_BYTES > length:
            return None
        meta_length, data_length = _unpack_u32_pair(buffer, position + at)
        meta_at = at + EVENT_HEADER_BYTES
        data_at = meta_at + meta_length
        at = data_at + data_length
        if at > length:
            return None
        spans.append(Span(meta_at, meta_length, data_at, data_length))
    return tuple(spans) if at == length else None


def lsn_of(head: bytes | memoryview) -> int:
    """Return the LSN in the first buffer of an encoded frame. Raises ValueError if too short."""
    if len(head) < HEADER_BYTES:
        raise ValueError("the first buffer of a frame holds its whole header")
    return int.from_bytes(head[8:16], "little")


def find_proof(buffer: bytes | memoryview, position: int, lsn: int, seed: int = 0) -> int | None:
    """Return where a whole frame lies that proves ``lsn`` was durable, at or after ``position``.

    Every byte position is tried, since the damage may have taken the lengths that lead to the
    next frame. Returns None when no whole frame says so. Runs of zeros cost next to nothing.
    """
    # The file cannot hold more frames than this, so no honest LSN in it is higher.
    lsn_max = lsn + len(buffer) // HEADER_BYTES
    search = _HEADER_END.search
    found = search(buffer, max(position, 0) + _HEADER_END_AT)
    while found is not None:
        start = found.start() - _HEADER_END_AT
        its_lsn, durable_lsn = _unpack_u64_pair(buffer, start + _BEHIND_CRC_AT)
        # The numbers are judged first: a checksum over a chance length could be long.
        if lsn <= durable_lsn < its_lsn <= lsn_max and isinstance(
            decode_frame(buffer, start, seed), Frame
        ):
            return start
        found = search(buffer, found.start() + 1)
    return None
