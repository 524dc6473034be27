"""A stream as readers see it, and a fork through the streams it came from."""

from millstream.core.events import Appended, Fork, StreamCreated
from millstream.core.offsets import ZERO, Position
from millstream.engine.tails import Tail


def tail(stream_id: int = 1, ttl_s: int | None = None) -> Tail:
    return Tail(StreamCreated(stream_id, "a", "text/plain", 50, ttl_s, None, None), None)


def add(to: Tail, count: int, time_ms: int, data: bytes | int = b"x") -> None:
    to.append(Appended(to.stream_id, to.index, count, time_ms), data, 1, 40)


def fork(source: Tail, base: int, stream_id: int) -> Tail:
    point = Fork(source.stream_id, source.path, base, 0, base, source.time_at(base))
    return Tail(StreamCreated(stream_id, "f", "text/plain", 50, None, None, point), source)


def family() -> tuple[Tail, Tail, Tail]:
    """A stream of 5, a fork of it at 5 with 3 more, and a fork of that at 3 with 2 more."""
    one = tail()
    for time_ms in (100, 200, 300, 400, 500):
        add(one, 1, time_ms)
    two = fork(one, 5, 2)
    for time_ms in (600, 700, 800):
        add(two, 1, time_ms)
    three = fork(two, 3, 3)
    add(three, 2, 900)
    add(one, 4, 950)
    return one, two, three


def test_an_empty_stream_is_at_the_start() -> None:
    assert tail().tail == ZERO
    assert tail().knows(ZERO)
    assert tail().index_since(5) == 0


def test_a_position_is_known_by_index_and_time() -> None:
    one = tail()
    add(one, 2, 100)
    add(one, 1, 200)
    assert [one.offset_at(index)[-18:] for index in range(4)] == [
        "0_0000000000000000",
        "0_0000000000000001",
        "0_0000000000000002",
        "0_0000000000000003",
    ]
    assert one.knows(Position(100, 1))
    assert one.knows(Position(200, 3))
    assert not one.knows(Position(100, 3))
    assert not one.knows(Position(200, 4))
    assert not one.knows(Position(1, 0))


def test_a_fork_of_a_fork_below_its_sources_own_base_shows_the_first_streams_times() -> None:
    _, two, three = family()
    assert [two.time_at(index) for index in range(9)] == [0, *range(100, 900, 100)]
    assert [three.time_at(index) for index in range(6)] == [0, 100, 200, 300, 900, 900]
    assert three.knows(Position(300, 3))
    assert not three.knows(Position(400, 4))


def test_a_time_is_found_through_all_sources_and_never_past_a_fork_point() -> None:
    one, two, three = family()
    assert [one.index_since(time) for time in (0, 250, 500, 501, 951)] == [0, 2, 4, 5, 9]
    assert [two.index_since(time) for time in (0, 250, 501, 650, 801)] == [0, 2, 5, 6, 8]
    assert [three.index_since(time) for time in (0, 250, 301, 450, 850, 901)] == [0, 2, 3, 3, 3, 5]


def test_an_append_ends_for_a_fork_where_the_fork_left() -> None:
    one = tail()
    add(one, 10, 100)
    two = fork(one, 8, 2)
    three = fork(two, 3, 3)
    assert [t.append_end(0) for t in (one, two, three)] == [10, 8, 3]


def test_watchers_are_told_until_they_leave_and_one_failing_stops_no_other() -> None:
    one = tail()
    calls: list[str] = []

    def broken() -> None:
        raise OSError("gone")

    def first() -> None:
        calls.append("first")
        one.unwatch(first)

    def second() -> None:
        calls.append("second")

    one.notify()
    one.unwatch(second)
    for watcher in (broken, first, second):
        one.watch(watcher)
    one.notify()
    one.notify()
    assert calls == ["first", "second", "second"]


def test_an_append_slides_a_ttl_for_readers_too() -> None:
    one = tail(ttl_s=10)
    assert one.deadline_ms == 10_050
    add(one, 1, 5_000)
    assert one.deadline_ms == 15_000


def test_bytes_are_hot_until_cooled_and_lengths_alone_never_are() -> None:
    one = tail()
    add(one, 1, 100, 7)
    assert (hot(one), one.stored_bytes) == ([None], 7)
    add(one, 1, 100, b"hot")
    assert (hot(one), one.stored_bytes) == ([None, b"hot"], 10)
    assert one.cool() == 3
    assert hot(one) == [None, None]
    assert one.cool() == 0


def hot(of: Tail) -> list[object]:
    numbers = range(len(of.extents))
    return [of.hot.get(number) if of.hot is not None else None for number in numbers]
