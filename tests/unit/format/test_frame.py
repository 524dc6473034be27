import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort, Ended
from millstream.format.frame import (
    COPY_BYTES_MAX,
    EVENTS_MAX,
    HEADER_BYTES,
    KIND_EVENTS,
    KIND_MARK,
    Frame,
    data_positions,
    decode_frame,
    encode_frame,
    find_proof,
    frame_size,
    lsn_of,
)
from millstream.format.versions import UnknownVersion

GOLDEN_FRAME = bytes.fromhex(
    "31000000 9baaf680 0300000000000000 0200000000000000 01 00 0100 00000000"
    "04000000 05000000 6d657461 68656c6c6f"
)
GOLDEN_MARK = bytes.fromhex(
    "20000000 3e10b82e 0900000000000000 0800000000000000 01 01 0000 00000000"
)

parts_of_any_kind = st.lists(
    st.tuples(
        st.binary(max_size=40),
        st.one_of(
            st.binary(max_size=60),
            st.integers(COPY_BYTES_MAX - 2, COPY_BYTES_MAX + 2).map(lambda n: b"x" * n),
        ),
    ),
    max_size=5,
)


def resealed(frame: bytes) -> bytes:
    """Give bytes that were tampered with a checksum that holds."""
    crc = crc32c(frame[8:], crc32c(frame[:4]))
    return frame[:4] + struct.pack("<I", crc) + frame[8:]


def test_a_frame_has_its_golden_bytes() -> None:
    assert b"".join(encode_frame(3, 2, KIND_EVENTS, [(b"meta", b"hello")])) == GOLDEN_FRAME


def test_a_mark_has_its_golden_bytes() -> None:
    assert b"".join(encode_frame(9, 8, KIND_MARK, [])) == GOLDEN_MARK


@given(parts=parts_of_any_kind, lsn=st.integers(1, 2**64 - 1), lead=st.binary(max_size=9))
def test_a_frame_comes_back_as_it_was_written(
    parts: list[tuple[bytes, bytes]], lsn: int, lead: bytes
) -> None:
    encoded = b"".join(encode_frame(lsn, lsn - 1, KIND_EVENTS, parts))
    assert len(encoded) == frame_size(parts)
    frame = decode_frame(lead + encoded + b"behind", len(lead))
    assert isinstance(frame, Frame)
    assert (frame.lsn, frame.durable_lsn, frame.length) == (lsn, lsn - 1, len(encoded))
    assert [s.data_at for s in frame.spans] == data_positions(parts)
    assert [
        (
            encoded[s.meta_at : s.meta_at + s.meta_length],
            encoded[s.data_at : s.data_at + s.data_length],
        )
        for s in frame.spans
    ] == parts


def test_a_small_frame_is_one_buffer() -> None:
    assert len(encode_frame(1, 0, KIND_EVENTS, [(b"m", b"d")])) == 1
    assert len(encode_frame(1, 0, KIND_EVENTS, [(b"m", b"d"), (b"n", b"e")])) == 1


def test_large_data_is_handed_through_uncopied() -> None:
    data = bytes(COPY_BYTES_MAX + 1)
    alone = encode_frame(1, 0, KIND_EVENTS, [(b"m", data)])
    among = encode_frame(1, 0, KIND_EVENTS, [(b"m", b"small"), (b"m", data), (b"n", b"")])
    assert alone[1] is data
    assert among[1] is data
    assert lsn_of(alone[0]) == 1


def test_a_view_of_a_request_can_be_data() -> None:
    view = memoryview(b"..." + b"x" * 5000)[3:]
    assert encode_frame(1, 0, KIND_EVENTS, [(b"m", view)])[1] is view
    whole = b"".join(encode_frame(1, 0, KIND_EVENTS, [(b"m", view[:10])]))
    assert whole.endswith(b"x" * 10)


def test_a_frame_that_cannot_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="at most"):
        encode_frame(1, 0, KIND_EVENTS, [(b"", b"")] * (EVENTS_MAX + 1))
    with pytest.raises(ValueError, match="mark"):
        encode_frame(1, 0, KIND_MARK, [(b"m", b"")])
    with pytest.raises(ValueError, match="header"):
        lsn_of(b"short")


@pytest.mark.parametrize("golden", [GOLDEN_FRAME, GOLDEN_MARK])
def test_every_flipped_bit_is_noticed(golden: bytes) -> None:
    for bit in range(len(golden) * 8):
        flipped = bytearray(golden + bytes(64))
        flipped[bit // 8] ^= 1 << bit % 8
        assert not isinstance(decode_frame(bytes(flipped)), Frame), bit


@pytest.mark.parametrize("golden", [GOLDEN_FRAME, GOLDEN_MARK])
def test_every_missing_end_is_noticed(golden: bytes) -> None:
    for length in range(1, len(golden)):
        assert isinstance(decode_frame(golden[:length]), CutShort)
        zeroed = golden[:length] + bytes(len(golden) - length)
        if zeroed != golden:
            assert isinstance(decode_frame(zeroed), Corrupt | Ended)


@given(st.binary(max_size=200), st.integers(0, 250))
def test_any_bytes_get_a_typed_answer(data: bytes, position: int) -> None:
    answer = decode_frame(data, position)
    assert isinstance(answer, Frame | Ended | CutShort | Corrupt | UnknownVersion)


@given(st.binary(min_size=24, max_size=120))
def test_any_bytes_under_a_good_checksum_get_a_typed_answer(rest: bytes) -> None:
    frame = resealed(struct.pack("<II", 8 + len(rest), 0) + rest)
    answer = decode_frame(frame)
    assert isinstance(answer, Frame | Corrupt | UnknownVersion)


def test_a_huge_announced_length_is_only_an_answer() -> None:
    head = struct.pack("<IIQQBBHI", 0xFFFF_FFFF, 0, 1, 0, 1, 0, 0xFFFF, 0)
    assert decode_frame(head) == CutShort(0xFFFF_FFFF)


def test_zeros_are_the_end() -> None:
    assert decode_frame(bytes(100)) == Ended()
    assert decode_frame(bytes(5)) == Ended()
    assert decode_frame(b"") == Ended()


def test_an_unknown_version_is_no_damage() -> None:
    newer = bytearray(GOLDEN_FRAME)
    newer[24] = 2
    assert decode_frame(resealed(bytes(newer))) == UnknownVersion("the frame", 2, 1)


@pytest.mark.parametrize(
    "at,value",
    [(25, 2), (28, 1), (16, 3), (26, 2), (26, 0), (32, 3), (36, 4)],
    ids=["kind", "reserved", "durable >= lsn", "more events", "fewer events", "meta", "data"],
)
def test_a_frame_that_contradicts_itself_is_corrupt(at: int, value: int) -> None:
    odd = bytearray(GOLDEN_FRAME)
    odd[at] = value
    assert isinstance(decode_frame(resealed(bytes(odd))), Corrupt)


def test_a_proof_is_found_at_any_byte() -> None:
    later = b"".join(encode_frame(6, 5, KIND_EVENTS, [(b"m", b"d")]))
    for lead in range(70):
        data = b"\x01" * lead + later + bytes(9)
        assert find_proof(data, 0, 5) == lead
        assert find_proof(data, lead + 1, 5) is None


def test_a_proof_is_found_behind_bytes_that_look_like_its_header() -> None:
    lsn = 2**48
    later = b"".join(encode_frame(lsn + 1, lsn, KIND_MARK, []))
    assert find_proof(bytes(40) + later, 0, lsn) == 40


def test_a_frame_that_proves_less_is_no_proof() -> None:
    later = b"".join(encode_frame(6, 5, KIND_EVENTS, [(b"m", b"d")]))
    assert find_proof(later, 0, 6) is None
    assert find_proof(later[:-1], 0, 5) is None


def test_a_frame_further_on_than_the_file_can_reach_is_no_proof() -> None:
    stray = b"".join(encode_frame(1_000_000, 999_999, KIND_MARK, []))
    assert len(stray) == HEADER_BYTES
    assert find_proof(stray, 0, 5) is None
