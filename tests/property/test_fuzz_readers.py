"""Every reader of stored bytes under mutated input: the value that was written, or a defect."""

import struct
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from millstream.core.events import Appended, StreamClosed, StreamCreated, StreamRemoved
from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort, Ended
from millstream.format.events import decode_event, encode_event
from millstream.format.frame import KIND_EVENTS, KIND_MARK, Frame, decode_frame, encode_frame
from millstream.format.frame import find_proof as find_proof_in
from millstream.format.logfile import LogHeader, decode_log_header, encode_log_header
from millstream.format.snapshot import (
    SNAPSHOT_HEADER_BYTES,
    Chunk,
    EndChunk,
    SnapshotHeader,
    chunk_length,
    decode_chunk,
    decode_snapshot_header,
    encode_snapshot,
)
from millstream.format.versions import UnknownVersion
from millstream.server.keys import KeysError, load_keys, read_keys
from tests.support.mutations import Mutator

ROUNDS = 2000
DEFECT = (Ended, CutShort, Corrupt, UnknownVersion)
ID = bytes(range(16))
EVENTS = (
    StreamCreated(1, "a/b", "text/plain", 1_700_000_000_000, None, None, None),
    Appended(1, 0, 2, 1_700_000_000_001, b"\1\0\0\0\2\0\0\0", "p", 1, 2, "seq"),
    StreamClosed(1, 1_700_000_000_002, "p", 1, 3),
    StreamRemoved(1),
)
METAS = [encode_event(event) for event in EVENTS]


def joined(buffers: list[bytes | memoryview]) -> bytes:
    return b"".join(bytes(buffer) for buffer in buffers)


FRAMES = [
    joined(encode_frame(7, 6, KIND_EVENTS, [(meta, b"data" * size) for meta in METAS[:count]]))
    for count, size in ((1, 0), (1, 1), (1, 5000), (2, 3), (4, 100))
] + [joined(encode_frame(9, 8, KIND_MARK, ()))]
CHUNKS = list(encode_snapshot(SnapshotHeader(ID, 5), [b"one", b"", b"x" * 300], chunk_bytes=200))


def sealed(data: bytes) -> bytes:
    """Return a frame or a chunk with its length and checksum made right again."""
    if len(data) < 8:
        return data
    length = struct.pack("<I", len(data))
    return length + struct.pack("<I", crc32c(data[8:], crc32c(length))) + data[8:]


def read_frame(data: bytes) -> None:
    for raw in (data, sealed(data)):
        frame = decode_frame(raw)
        assert isinstance(frame, (Frame, *DEFECT))
        if isinstance(frame, Frame):
            assert frame.length <= len(raw)
            for span in frame.spans:
                assert span.data_at + span.data_length <= frame.length
                read_event(raw[span.meta_at : span.meta_at + span.meta_length])
        proof = find_proof_in(raw, 0, 6)
        assert proof is None or isinstance(decode_frame(raw, proof), Frame)


def read_event(data: bytes) -> None:
    try:
        event = decode_event(data)
    except msgspec.DecodeError:
        return
    assert decode_event(encode_event(event)) == event


def read_log_header(data: bytes) -> None:
    found = decode_log_header(data)
    assert isinstance(found, (LogHeader, *DEFECT))
    if isinstance(found, LogHeader):
        assert encode_log_header(found) == data[:64]


def read_snapshot(data: bytes) -> None:
    assert isinstance(decode_snapshot_header(data), (SnapshotHeader, *DEFECT))
    for raw in (data, sealed(data)):
        length = chunk_length(raw)
        assert length is None or length > 0
        chunk = decode_chunk(raw)
        assert isinstance(chunk, (Chunk, EndChunk, *DEFECT))
        if isinstance(chunk, Chunk):
            assert sum(map(len, chunk.records)) <= len(raw)


TARGETS: dict[Callable[[bytes], None], list[bytes]] = {
    read_frame: FRAMES,
    read_event: METAS,
    read_log_header: [encode_log_header(LogHeader(ID, 3, 17, 4096))],
    read_snapshot: [CHUNKS[0][:SNAPSHOT_HEADER_BYTES], *CHUNKS[1:]],
}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.__name__)
def test_mutated_bytes_are_read_or_called_a_defect(target: Callable[[bytes], None]) -> None:
    mutator = Mutator(43, TARGETS[target])
    for _ in range(ROUNDS):
        data = mutator.next()
        try:
            target(data)
        except Exception as error:
            raise AssertionError(f"{target.__name__} on {data[:3000]!r}") from error


def test_a_frame_that_is_changed_and_not_sealed_is_never_read() -> None:
    mutator = Mutator(44, FRAMES)
    for _ in range(ROUNDS):
        data = mutator.next()
        if any(data.startswith(frame) for frame in FRAMES):
            continue
        assert not isinstance(decode_frame(data), Frame), data[:3000]


def test_a_mutated_key_file_is_refused_with_its_name(tmp_path: Path) -> None:
    load_keys(tmp_path)
    [path] = list(tmp_path.iterdir())
    raw = path.read_bytes()
    kid = load_keys(tmp_path).kid
    mutator = Mutator(45, [raw])
    refusals: list[str] = []
    for _ in range(ROUNDS // 4):
        data = mutator.next()
        path.write_bytes(data)
        try:
            keys = read_keys(path)
        except KeysError as error:
            refusals.append(str(error))
        else:
            # White space does not matter to JSON; the keys must be the ones that were written.
            assert keys is not None
            assert keys.kid == kid
    assert refusals
    assert all(path.name in refusal for refusal in refusals)
