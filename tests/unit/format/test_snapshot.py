import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort
from millstream.format.snapshot import (
    Chunk,
    EndChunk,
    SnapshotHeader,
    chunk_length,
    decode_chunk,
    decode_snapshot_header,
    encode_snapshot,
    snapshot_lsn,
    snapshot_name,
)
from millstream.format.versions import UnknownVersion

HEADER = SnapshotHeader(bytes(range(16)), 5)
GOLDEN = bytes.fromhex(
    # header
    "4d494c4c534e5031 01000000 00b2a3c4 000102030405060708090a0b0c0d0e0f 0500000000000000"
    + "00" * 24
    # chunk 0: two records
    + "25000000 4f72b7c4 00000000 00000000 02000000 00000000 03000000 6f6e65 02000000 3232"
    # chunk 1: the end
    + "30000000 ac4c621c 01000000 01000000 00000000 00000000"
    "0200000000000000 6500000000000000 eb90f173 00000000"
)


def pieces(records: list[bytes], chunk_bytes: int = 64) -> list[bytes]:
    return list(encode_snapshot(HEADER, records, chunk_bytes=chunk_bytes))


def resealed(chunk: bytes) -> bytes:
    return chunk[:4] + struct.pack("<I", crc32c(chunk[8:], crc32c(chunk[:4]))) + chunk[8:]


def test_a_snapshot_has_its_golden_bytes() -> None:
    assert b"".join(pieces([b"one", b"22"])) == GOLDEN


@given(st.lists(st.binary(max_size=100), max_size=20), st.integers(1, 300))
def test_records_come_back_as_they_were_written(records: list[bytes], chunk_bytes: int) -> None:
    head, *chunks, end = pieces(records, chunk_bytes)
    assert decode_snapshot_header(head) == HEADER
    found: list[bytes] = []
    for index, data in enumerate(chunks):
        assert chunk_length(data[:24]) == len(data)
        chunk = decode_chunk(data)
        assert isinstance(chunk, Chunk)
        assert chunk.index == index
        found.extend(chunk.records)
    assert found == records
    before = b"".join((head, *chunks))
    assert decode_chunk(end) == EndChunk(len(chunks), len(records), len(before), crc32c(before))


def test_a_record_above_the_chunk_size_gets_a_chunk_of_its_own() -> None:
    _, first, second, third, _ = pieces([b"a", b"b" * 500, b"c"])
    assert [decode_chunk(c) for c in (first, second, third)] == [
        Chunk(0, (b"a",)),
        Chunk(1, (b"b" * 500,)),
        Chunk(2, (b"c",)),
    ]


def test_every_flipped_bit_of_each_piece_is_noticed() -> None:
    head, *chunks = pieces([b"one", b"22"])
    for bit in range(len(head) * 8):
        flipped = bytearray(head)
        flipped[bit // 8] ^= 1 << bit % 8
        assert isinstance(decode_snapshot_header(bytes(flipped)), Corrupt)
    for chunk in chunks:
        for bit in range(len(chunk) * 8):
            flipped = bytearray(chunk)
            flipped[bit // 8] ^= 1 << bit % 8
            assert isinstance(decode_chunk(bytes(flipped)), Corrupt | CutShort)


@given(st.binary(max_size=150))
def test_any_bytes_get_a_typed_answer(data: bytes) -> None:
    assert isinstance(
        decode_snapshot_header(data), SnapshotHeader | Corrupt | CutShort | UnknownVersion
    )
    assert isinstance(decode_chunk(data), Chunk | EndChunk | Corrupt | CutShort)
    assert chunk_length(data) is None or len(data) >= 24


@given(st.binary(min_size=16, max_size=80))
def test_any_bytes_under_a_good_checksum_get_a_typed_answer(rest: bytes) -> None:
    chunk = resealed(struct.pack("<II", 8 + len(rest), 0) + rest)
    assert isinstance(decode_chunk(chunk), Chunk | EndChunk | Corrupt)


def test_an_unknown_version_is_no_damage() -> None:
    newer = GOLDEN[:8] + struct.pack("<I", 9) + GOLDEN[12:64]
    crc = crc32c(newer[16:], crc32c(newer[:12]))
    sealed = newer[:12] + struct.pack("<I", crc) + newer[16:]
    assert decode_snapshot_header(sealed) == UnknownVersion("the snapshot", 9, 1)


def test_a_directory_id_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16"):
        list(encode_snapshot(SnapshotHeader(b"", 1), []))


def test_names_carry_lsns() -> None:
    assert snapshot_name(7) == "0000000000000007.snap"
    assert snapshot_lsn("0000000000000007.snap") == 7
    assert snapshot_lsn("snapshot.tmp") is None
