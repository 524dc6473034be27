"""Offsets: one textual form, sorting as text, and nothing else taken for one."""

import pytest

from millstream.core.offsets import (
    BEGINNING,
    NOW,
    START,
    ZERO,
    Position,
    format_offset,
    parse_offset,
)


def test_the_start_is_all_zeros() -> None:
    assert ZERO.text() == START
    assert parse_offset(START) == ZERO


@pytest.mark.parametrize("position", [(0, 0), (1, 2), (1_700_000_000_000, 42), (10**16 - 1,) * 2])
def test_text_and_position_are_two_forms_of_one_thing(position: tuple[int, int]) -> None:
    text = format_offset(*position)
    assert len(text) == 33
    assert parse_offset(text) == Position(*position)
    assert Position(*position).text() == text


def test_offsets_sort_as_text_like_their_positions() -> None:
    positions = [(0, 0), (9, 1), (10, 1), (10, 2), (99, 10), (100, 11), (100, 100)]
    texts = [format_offset(*position) for position in positions]
    assert texts == sorted(texts)


def test_an_index_of_zero_behind_a_time_names_a_moment() -> None:
    assert Position(5, 0).is_point_in_time
    assert not Position(5, 1).is_point_in_time
    assert not ZERO.is_point_in_time


@pytest.mark.parametrize(
    "text",
    [
        "",
        BEGINNING,
        NOW,
        "0_0",
        START[:-1],
        START + "0",
        START.replace("_", "-"),
        " " + START[1:],
        "+" + START[1:],
        "000000000000000٣_0000000000000000",
        "000000000000000²_0000000000000000",
        START[:-1] + "\n",
    ],
)
def test_whatever_else_looks_like_an_offset_is_none(text: str) -> None:
    assert parse_offset(text) is None
