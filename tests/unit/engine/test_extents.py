"""Where messages lie: found by index and by time, packed for snapshots."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.engine.extents import Extent, Extents, pack_place, unpack_place


def three() -> Extents:
    extents = Extents(10)
    extents.add(12, 100, 1, 50)
    extents.add(13, 100, 2, 60)
    extents.add(20, 300, 3, 70)
    return extents


@given(st.integers(1, 2**27 - 1), st.integers(0, 2**36 - 1))
def test_a_place_packs_file_and_position(ordinal: int, position: int) -> None:
    assert unpack_place(pack_place(ordinal, position)) == (ordinal, position)


def test_rows_follow_each_other_from_the_base() -> None:
    extents = three()
    assert len(extents) == 3
    assert [extents.row(number) for number in range(3)] == [
        Extent(10, 12, 100, 1, 50),
        Extent(12, 13, 100, 2, 60),
        Extent(13, 20, 300, 3, 70),
    ]


def test_the_append_behind_a_position_is_found() -> None:
    extents = three()
    assert [extents.holding(index) for index in (10, 11, 12, 13, 19)] == [0, 0, 1, 2, 2]
    assert extents.holding(20) == 3


def test_the_time_of_a_position_is_that_of_the_message_before_it() -> None:
    extents = three()
    assert [extents.time_at(index) for index in (11, 12, 13, 14, 20)] == [100, 100, 100, 300, 300]


def test_a_time_leads_to_the_position_before_the_first_message_not_older() -> None:
    extents = three()
    found = [extents.first_since(time) for time in (0, 100, 101, 300, 301)]
    assert found == [10, 10, 13, 13, 20]


def test_without_messages_every_time_leads_to_the_base() -> None:
    assert Extents(7).first_since(5) == 7


def test_packed_rows_come_back_whole() -> None:
    again = Extents(10, three().packed())
    assert [again.row(number) for number in range(3)] == [three().row(n) for n in range(3)]
    assert len(three().packed()) == 3 * 32
