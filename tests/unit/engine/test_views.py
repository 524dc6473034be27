"""All streams as readers see them: found, listed, counted, and forgotten without a trace."""

from millstream.core.errors import Code, Refused
from millstream.core.events import (
    Appended,
    Event,
    Fork,
    ProducerMoved,
    StreamClosed,
    StreamCreated,
    StreamHidden,
    StreamRemoved,
)
from millstream.core.streams.state import Life
from millstream.engine.tails import Tail
from millstream.engine.views import Views


def created(stream_id: int, path: str, fork: Fork | None = None, ttl_s: int | None = None) -> Event:
    return StreamCreated(stream_id, path, "text/plain", 100, ttl_s, None, fork)


def apply(views: Views, *events: Event) -> None:
    for event in events:
        views.apply(event, b"", 1, 40)


def append(views: Views, stream_id: int, data: bytes | int) -> None:
    tail = views.by_id(stream_id)
    assert tail is not None
    views.apply(Appended(stream_id, tail.index, 1, 100), data, 1, 40)


def code(found: Tail | Refused) -> Code:
    assert isinstance(found, Refused)
    return found.code


def test_a_stream_is_found_by_path_until_it_goes() -> None:
    views = Views(1000)
    assert code(views.find("a", 0)) is Code.STREAM_NOT_FOUND
    apply(views, created(1, "a"))
    assert views.find("a", 0) is views.by_id(1)
    apply(views, StreamRemoved(1))
    assert code(views.find("a", 0)) is Code.STREAM_NOT_FOUND
    assert views.by_id(1) is None


def test_an_expired_stream_is_not_found_although_it_is_still_there() -> None:
    views = Views(1000)
    apply(views, created(1, "a", ttl_s=1))
    assert isinstance(views.find("a", 1_099), Tail)
    assert code(views.find("a", 1_100)) is Code.STREAM_NOT_FOUND


def test_a_deleted_source_is_gone_and_an_expired_one_frees_its_path() -> None:
    views = Views(1000)
    apply(views, created(1, "a"), created(2, "f", Fork(1, "a", 0, 0, 0, 0)))
    apply(views, StreamHidden(1, is_expired=False))
    assert code(views.find("a", 0)) is Code.STREAM_GONE
    apply(views, created(3, "b"), created(4, "g", Fork(3, "b", 0, 0, 0, 0)))
    apply(views, StreamHidden(3, is_expired=True))
    assert code(views.find("b", 0)) is Code.STREAM_NOT_FOUND
    apply(views, created(5, "b"), StreamRemoved(4), StreamRemoved(3))
    assert views.find("b", 0) is views.by_id(5)


def test_a_closure_is_seen_and_slides_a_ttl() -> None:
    views = Views(1000)
    apply(views, created(1, "a", ttl_s=1), StreamClosed(1, 500))
    tail = views.by_id(1)
    assert tail is not None
    assert tail.is_closed
    assert tail.deadline_ms == 1_500


def test_events_that_no_reader_sees_change_nothing() -> None:
    views = Views(1000)
    apply(views, created(1, "a"))
    views.take_changed()
    apply(views, ProducerMoved(1, "p", 0, 0))
    assert views.take_changed() == []


def test_changed_streams_are_told_once() -> None:
    views = Views(1000)
    apply(views, created(1, "a"), created(2, "b"))
    for _ in range(3):
        append(views, 1, b"x")
    apply(views, StreamClosed(2, 100))
    assert [tail.path for tail in views.take_changed()] == ["a", "b"]
    assert views.take_changed() == []
    apply(views, StreamRemoved(1))
    assert [tail.is_removed for tail in views.take_changed()] == [True]


class TestListing:
    def paths(self, prefix: str = "", after: str = "") -> list[str]:
        views = Views(1000)
        for number, path in enumerate(("b", "a/2", "a", "a/1", "a0", "é"), 1):
            apply(views, created(number, path))
        return [tail.path for tail in views.listing(prefix, after)]

    def test_streams_come_in_order_of_their_paths(self) -> None:
        assert self.paths() == ["a", "a/1", "a/2", "a0", "b", "é"]

    def test_a_prefix_is_a_prefix_of_the_text(self) -> None:
        assert self.paths("a/") == ["a/1", "a/2"]
        assert self.paths("a") == ["a", "a/1", "a/2", "a0"]
        assert self.paths("c") == []

    def test_a_page_goes_on_behind_the_last_path(self) -> None:
        assert self.paths("a", "a/1") == ["a/2", "a0"]
        assert self.paths("a/", "a") == ["a/1", "a/2"]
        assert self.paths("", "a/11") == ["a/2", "a0", "b", "é"]
        assert self.paths("a", "b") == []


class TestBytes:
    def test_stored_and_hot_bytes_go_back_to_zero_with_the_last_stream(self) -> None:
        views = Views(10_000)
        apply(views, created(1, "a"), created(2, "f", Fork(1, "a", 0, 0, 0, 0)))
        for size in (10, 20, 30):
            append(views, 1, b"x" * size)
            append(views, 2, b"x" * size)
        append(views, 1, 500)
        assert (views.stored_bytes, views.hot_bytes) == (620, 120)
        apply(views, StreamHidden(1, is_expired=False))
        assert views.stored_bytes == 620
        apply(views, StreamRemoved(2), StreamRemoved(1))
        assert (views.stored_bytes, views.hot_bytes, len(views)) == (0, 0, 0)

    def test_the_oldest_bytes_of_all_streams_cool_first(self) -> None:
        views = Views(100)
        apply(views, created(1, "a"), created(2, "b"))
        for stream_id in (1, 2, 1, 2):
            append(views, stream_id, b"x" * 40)
        hot = [self.hot(views, stream_id) for stream_id in (1, 2)]
        assert hot == [[False, True], [False, True]]
        assert views.hot_bytes == 80

    def test_an_append_above_the_whole_budget_is_not_kept(self) -> None:
        views = Views(100)
        apply(views, created(1, "a"))
        append(views, 1, b"x" * 101)
        assert views.hot_bytes == 0
        append(views, 1, b"x" * 99)
        assert self.hot(views, 1) == [False, True]

    def test_cooling_goes_on_past_streams_that_were_removed(self) -> None:
        views = Views(100)
        apply(views, created(1, "a"), created(2, "b"))
        append(views, 1, b"x" * 60)
        append(views, 2, b"x" * 40)
        apply(views, StreamRemoved(1))
        append(views, 2, b"y" * 50)
        assert (views.hot_bytes, self.hot(views, 2)) == (90, [True, True])
        append(views, 2, b"z" * 50)
        assert (views.hot_bytes, self.hot(views, 2)) == (100, [False, True, True])

    def test_removed_streams_are_not_kept_in_memory(self) -> None:
        views = Views(1 << 20)
        apply(views, created(1, "stays"))
        append(views, 1, b"x")
        kept = 0
        for number in range(2, 3002):
            apply(views, created(number, "a"))
            append(views, number, b"x")
            append(views, number, b"y")
            apply(views, StreamRemoved(number))
            kept = max(kept, len(views._hot_order))
            views.take_changed()
        assert kept < 600
        assert views.hot_bytes == 1
        assert self.hot(views, 1) == [True]

    def test_what_was_removed_counts_right_when_it_is_passed_over(self) -> None:
        views = Views(100)
        for number in range(1, 1000):
            apply(views, created(number, "a"))
            append(views, number, b"x" * 30)
            apply(views, StreamRemoved(number))
            apply(views, created(10_000 + number, f"{number}"))
            append(views, 10_000 + number, b"y" * 40)
            assert views.hot_bytes == min(number, 2) * 40
        assert 0 <= views._hot_stale <= len(views._hot_order) < 600

    def hot(self, views: Views, stream_id: int) -> list[bool]:
        tail = views.by_id(stream_id)
        assert tail is not None
        if tail.hot is None:
            return [False] * len(tail.extents)
        return [tail.hot.get(number) is not None for number in range(len(tail.extents))]


def test_restored_streams_are_found_unless_they_expired() -> None:
    views = Views(1000)
    for number, life in ((1, Life.LIVE), (2, Life.DELETED), (3, Life.EXPIRED)):
        tail = Tail(StreamCreated(number, f"{number}", "text/plain", 1, None, None, None), None)
        tail.life, tail.stored_bytes = life, 10
        views.restore(tail)
    assert isinstance(views.find("1", 0), Tail)
    assert code(views.find("2", 0)) is Code.STREAM_GONE
    assert code(views.find("3", 0)) is Code.STREAM_NOT_FOUND
    assert (len(views), views.stored_bytes, len(list(views.all()))) == (3, 30, 3)
