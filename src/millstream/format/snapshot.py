"""Snapshots: the whole state at one LSN, as opaque records in checked chunks.

Layout, little endian. Header of 64 bytes: magic ``MILLSNP1``, u32 version, u32 crc32c over the
other 60 bytes, 16 bytes directory id, u64 lsn, 24 zero bytes. Then chunks, each with a header of
24 bytes: u32 length of the whole chunk, u32 crc32c over its other bytes, u32 index (0, 1, 2 …),
u32 kind (0 records, 1 end), u32 record_count, u32 reserved = 0. A chunk of records holds, per
record, u32 length and the bytes. The end chunk holds u64 records in the file, u64 bytes before
the end chunk, u32 crc32c over all those bytes, u32 reserved = 0; the file ends right behind it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort
from millstream.format.logfile import DIRECTORY_ID_BYTES
from millstream.format.versions import SNAPSHOT_VERSION, UnknownVersion

SNAPSHOT_MAGIC: Final = b"MILLSNP1"
SNAPSHOT_HEADER_BYTES: Final = 64
CHUNK_HEADER_BYTES: Final = 24
CHUNK_TARGET_BYTES: Final = 1 << 20
KIND_RECORDS: Final = 0
KIND_END: Final = 1
RECORD_BYTES_MAX: Final = 0x7FFF_FFFF

_HEADER = struct.Struct("<8sII16sQ24x")
_CHUNK = struct.Struct("<IIIIII")
_CHUNK_BEHIND_CRC = struct.Struct("<IIII")
_END = struct.Struct("<QQII")
_pack_u32 = struct.Struct("<I").pack
_unpack_u32 = struct.Struct("<I").unpack_from
_NAME = re.compile(r"([0-9]{16})\.snap")


class SnapshotHeader(msgspec.Struct, frozen=True):
    """What a snapshot says of itself: the state after every frame up to ``lsn``."""

    directory_id: bytes
    lsn: int


class Chunk(msgspec.Struct, frozen=True):
    """A chunk of records whose checksum and structure hold."""

    index: int
    records: tuple[bytes, ...]


class EndChunk(msgspec.Struct, frozen=True):
    """The last chunk: what the file before it must amount to."""

    index: int
    record_count: int
    bytes_before: int
    crc: int


def snapshot_name(lsn: int) -> str:
    """Return the file name of the snapshot at ``lsn``."""
    return f"{lsn:016d}.snap"


def snapshot_lsn(name: str) -> int | None:
    """Return the LSN that a file name carries, or None when it is no snapshot's name."""
    found = _NAME.fullmatch(name)
    return int(found.group(1)) if found else None


def encode_snapshot_header(header: SnapshotHeader) -> bytes:
    """Return the 64 bytes of a snapshot's header. Raises ValueError on a bad directory id."""
    if len(header.directory_id) != DIRECTORY_ID_BYTES:
        raise ValueError(f"a directory id has {DIRECTORY_ID_BYTES} bytes")
    fields = (header.directory_id, header.lsn)
    blank = _HEADER.pack(SNAPSHOT_MAGIC, SNAPSHOT_VERSION, 0, *fields)
    crc = crc32c(blank[16:], crc32c(blank[:12]))
    return _HEADER.pack(SNAPSHOT_MAGIC, SNAPSHOT_VERSION, crc, *fields)


def decode_snapshot_header(data: bytes) -> SnapshotHeader | CutShort | Corrupt | UnknownVersion:
    """Return the header in the first 64 bytes of ``data``, or why there is none."""
    if len(data) < SNAPSHOT_HEADER_BYTES:
        return CutShort(SNAPSHOT_HEADER_BYTES)
    head = data[:SNAPSHOT_HEADER_BYTES]
    magic, version, crc, directory_id, lsn = _HEADER.unpack(head)
    if magic != SNAPSHOT_MAGIC:
        return Corrupt("this is not a snapshot: its first bytes are not the magic")
    if crc32c(head[16:], crc32c(head[:12])) != crc:
        return Corrupt("the snapshot's header does not match its checksum")
    if version != SNAPSHOT_VERSION:
        return UnknownVersion("the snapshot", version, SNAPSHOT_VERSION)
    if any(head[40:]):
        return Corrupt("the snapshot's header contradicts itself")
    return SnapshotHeader(directory_id, lsn)


def encode_snapshot(
    header: SnapshotHeader, records: Iterable[bytes], *, chunk_bytes: int = CHUNK_TARGET_BYTES
) -> Iterator[bytes]:
    """Yield the whole snapshot, piece by piece: header, chunks, end chunk.

    At most about ``chunk_bytes`` (and one record) are held at a time. Raises ValueError for a
    record above ``RECORD_BYTES_MAX``.
    """
    head = encode_snapshot_header(header)
    yield head
    crc, written, total, index = crc32c(head), len(head), 0, 0
    pieces: list[bytes] = []
    held = 0
    for record in records:
        if len(record) > RECORD_BYTES_MAX:
            raise ValueError(f"a record holds at most {RECORD_BYTES_MAX} bytes")
        if pieces and held + len(record) > chunk_bytes:
            chunk = _encode_chunk(index, KIND_RECORDS, len(pieces) // 2, pieces)
            yield chunk
            crc, written, index = crc32c(chunk, crc), written + len(chunk), index + 1
            pieces, held = [], 0
        pieces += (_pack_u32(len(record)), record)
        held += len(record) + 4
        total += 1
    if pieces:
        chunk = _encode_chunk(index, KIND_RECORDS, len(pieces) // 2, pieces)
        yield chunk
        crc, written, index = crc32c(chunk, crc), written + len(chunk), index + 1
    yield _encode_chunk(index, KIND_END, 0, [_END.pack(total, written, crc, 0)])


def _encode_chunk(index: int, kind: int, count: int, pieces: list[bytes]) -> bytes:
    body = b"".join((_CHUNK_BEHIND_CRC.pack(index, kind, count, 0), *pieces))
    length = len(body) + 8
    return _pack_u32(length) + _pack_u32(crc32c(body, crc32c(_pack_u32(length)))) + body


def chunk_length(data: bytes) -> int | None:
    """Return the length a chunk's first bytes announce, or None when it cannot be one."""
    if len(data) < CHUNK_HEADER_BYTES:
        return None
    length: int = _unpack_u32(data, 0)[0]
    return length if length >= CHUNK_HEADER_BYTES else None


def decode_chunk(data: bytes) -> Chunk | EndChunk | CutShort | Corrupt:
    """Return the chunk that ``data`` is, or why it is none. ``data`` must hold just the chunk."""
    if len(data) < CHUNK_HEADER_BYTES:
        return CutShort(CHUNK_HEADER_BYTES)
    length, crc, index, kind, count, reserved = _CHUNK.unpack_from(data)
    if length > len(data):
        return CutShort(length)
    view = memoryview(data)
    if length < len(data) or crc32c(view[8:], crc32c(view[:4])) != crc:
        return Corrupt("a chunk of the snapshot does not match its checksum")
    if kind == KIND_END and count == 0 and length == CHUNK_HEADER_BYTES + _END.size:
        records, before, file_crc, zero = _END.unpack_from(data, CHUNK_HEADER_BYTES)
        if reserved == 0 and zero == 0:
            return EndChunk(index, records, before, file_crc)
    elif kind == KIND_RECORDS and reserved == 0:
        found = _records(data, count)
        if found is not None:
            return Chunk(index, found)
    return Corrupt("a chunk of the snapshot contradicts itself")


def _records(data: bytes, count: int) -> tuple[bytes, ...] | None:
    at = CHUNK_HEADER_BYTES
    records: list[bytes] = []
    for _ in range(count):
        if at + 4 > len(data):
            return None
        end = at + 4 + _unpack_u32(data, at)[0]
        if end > len(data):
            return None
        records.append(data[at + 4 : end])
        at = end
    return tuple(records) if at == len(data) else None
