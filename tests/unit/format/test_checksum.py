from millstream.format.checksum import crc32c


def test_the_checksum_is_castagnoli_s() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_checksum_goes_on_where_another_stopped() -> None:
    assert crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")


def test_any_buffer_is_taken_without_a_copy() -> None:
    assert crc32c(memoryview(b"0123456789")[1:]) == crc32c(b"123456789")
