"""The cache of newest appends: first in, first out, by number."""

from millstream.engine.hot import Hot


def test_appends_are_found_by_their_number() -> None:
    hot = Hot(5)
    hot.add(b"five")
    hot.add((b"six", b"\3\0\0\0"))
    assert [hot.get(number) for number in (4, 5, 6)] == [None, b"five", (b"six", b"\3\0\0\0")]
    assert (len(hot), hot.weight()) == (2, 7)


def test_the_oldest_goes_first_and_frees_its_bytes() -> None:
    hot = Hot(0)
    for size in (3, 5, 7):
        hot.add(b"x" * size)
    assert [hot.cool(), hot.cool()] == [3, 5]
    assert [hot.get(0), hot.get(1), hot.get(2)] == [None, None, b"x" * 7]
    assert (len(hot), hot.weight()) == (1, 7)


def test_numbers_hold_when_the_cooled_part_is_trimmed_away() -> None:
    hot = Hot(100)
    for number in range(1000):
        hot.add(b"%d" % number)
        if number >= 10:
            hot.cool()
            assert hot.get(100 + number) == b"%d" % number
            assert hot.get(100 + number - 9) == b"%d" % (number - 9)
            assert hot.get(100 + number - 10) is None
    assert len(hot) == 10
    assert len(hot._chunks) < 200
