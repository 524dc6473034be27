import io
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.cli.batches import Limits, NotJson, chunks, json_arrays, lines

WIDE = Limits(1000, 1 << 20)


class Slow(io.BytesIO):
    """Gives a few bytes at a time, as a pipe does."""

    def read1(self, size: int | None = -1, /) -> bytes:
        return super().read1(3)


def test_steady_chunks_are_full_and_eager_chunks_come_as_they_are() -> None:
    assert list(chunks(Slow(b"abcdefgh"), 4, steady=True)) == [b"abcd", b"efgh"]
    assert list(chunks(Slow(b"abcdefgh"), 4, steady=False)) == [b"abc", b"def", b"gh"]


def test_lines_are_cut_by_count_and_by_size() -> None:
    text = b"1\n2\n3\n4444444\n5"
    assert list(lines(io.BytesIO(text), Limits(2, 100), steady=True)) == [
        [b"1\n", b"2\n"],
        [b"3\n", b"4444444\n"],
        [b"5"],
    ]
    assert list(lines(io.BytesIO(text), Limits(100, 4), steady=True)) == [
        [b"1\n", b"2\n"],
        [b"3\n"],
        [b"4444444\n"],
        [b"5"],
    ]


def test_eager_lines_do_not_wait_for_a_full_batch() -> None:
    assert list(lines(Slow(b"1\n2\n3\n"), WIDE, steady=False)) == [[b"1\n"], [b"2\n", b"3\n"]]


@given(st.binary(max_size=300), st.integers(1, 5), st.integers(1, 40), st.booleans())
def test_batches_of_lines_put_together_are_the_input(
    data: bytes, count: int, size: int, steady: bool
) -> None:
    found = list(lines(Slow(data), Limits(count, size), steady=steady))
    assert b"".join(line for batch in found for line in batch) == data
    assert all(batch and len(batch) <= count for batch in found)
    assert all(line.count(b"\n") <= 1 for batch in found for line in batch)


def test_lines_become_arrays_with_their_original_bytes() -> None:
    batches: Iterator[list[bytes]] = iter([[b'{"a": 1.0}\n', b"\n", b" 2\r\n"], [b"\n"]])
    assert list(json_arrays(batches)) == [(b'[{"a": 1.0},2]', 2)]


@pytest.mark.parametrize("line", [b"{", b"1 2", b"nope", b'{"a":1},{"b":2}'])
def test_a_line_that_is_not_one_value_is_named(line: bytes) -> None:
    with pytest.raises(NotJson, match="line 2 is not one JSON value") as caught:
        list(json_arrays(iter([[b"1\n", line]])))
    assert caught.value.line_number == 2
