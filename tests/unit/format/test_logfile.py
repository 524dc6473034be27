import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort
from millstream.format.logfile import (
    LogHeader,
    decode_log_header,
    encode_log_header,
    log_name,
    log_ordinal,
)
from millstream.format.versions import UnknownVersion

HEADER = LogHeader(bytes(range(16)), 2, 77, 4096)
GOLDEN = bytes.fromhex(
    "4d494c4c4c4f4731 01000000 4d4e072b 000102030405060708090a0b0c0d0e0f"
    "0200000000000000 4d00000000000000 0010000000000000" + "00" * 8
)


def resealed(head: bytes) -> bytes:
    crc = crc32c(head[16:64], crc32c(head[:12]))
    return head[:12] + struct.pack("<I", crc) + head[16:]


def test_a_header_has_its_golden_bytes() -> None:
    assert encode_log_header(HEADER) == GOLDEN


@given(st.binary(min_size=16, max_size=16), st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1))
def test_a_header_comes_back_as_it_was_written(
    directory_id: bytes, ordinal: int, first_lsn: int
) -> None:
    header = LogHeader(directory_id, ordinal, first_lsn, 4096)
    assert decode_log_header(encode_log_header(header) + b"behind") == header


def test_every_flipped_bit_is_noticed() -> None:
    for bit in range(len(GOLDEN) * 8):
        flipped = bytearray(GOLDEN)
        flipped[bit // 8] ^= 1 << bit % 8
        assert isinstance(decode_log_header(bytes(flipped)), Corrupt)


@given(st.binary(max_size=130))
def test_any_bytes_get_a_typed_answer(data: bytes) -> None:
    assert isinstance(decode_log_header(data), LogHeader | Corrupt | CutShort | UnknownVersion)


def test_a_cut_header_is_cut_short() -> None:
    assert decode_log_header(GOLDEN[:63]) == CutShort(64)


def test_an_unknown_version_is_no_damage() -> None:
    newer = GOLDEN[:8] + struct.pack("<I", 2) + GOLDEN[12:]
    assert decode_log_header(resealed(newer)) == UnknownVersion("the log file", 2, 1)


@pytest.mark.parametrize("at", [32, 40, 63])
def test_a_header_that_contradicts_itself_is_corrupt(at: int) -> None:
    odd = bytearray(GOLDEN)
    odd[at] = 0 if odd[at] else 1
    assert isinstance(decode_log_header(resealed(bytes(odd))), Corrupt)


def test_a_directory_id_has_sixteen_bytes() -> None:
    with pytest.raises(ValueError, match="16"):
        encode_log_header(LogHeader(b"short", 1, 1, 4096))


def test_names_carry_ordinals() -> None:
    assert log_name(12) == "0000000000000012.log"
    assert log_ordinal("0000000000000012.log") == 12


@pytest.mark.parametrize("name", ["next.tmp", "12.log", "0000000000000012.log.bak", "LOCK", ""])
def test_other_names_carry_none(name: str) -> None:
    assert log_ordinal(name) is None
