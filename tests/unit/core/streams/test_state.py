"""What a stream is: its tail, its deadline, and the maps that find it."""

from millstream.core.offsets import Position
from millstream.core.streams.state import Life, Stream, Streams, deadline_of


def stream(stream_id: int, path: str, life: Life = Life.LIVE) -> Stream:
    return Stream(stream_id, path, "text/plain", 5, None, None, None, 3, 9, 0, 0, life=life)


def test_the_tail_is_time_and_index() -> None:
    assert stream(1, "a").tail == Position(9, 3)
    assert stream(1, "a").tail_offset == "0000000000000009_0000000000000003"


def test_a_deadline_of_zero_is_no_deadline() -> None:
    one = stream(1, "a")
    assert not one.is_expired(10**15)
    one.deadline_ms = 10
    assert not one.is_expired(9)
    assert one.is_expired(10)


def test_a_ttl_counts_from_now_and_an_expiry_does_not() -> None:
    assert deadline_of(60, None, 1000) == 61_000
    assert deadline_of(0, None, 1000) == 1000
    assert deadline_of(None, 5000, 1000) == 5000
    assert deadline_of(None, None, 1000) == 0


def test_an_expiry_at_the_epoch_is_over_and_not_never() -> None:
    assert deadline_of(None, 0, 1000) == 1
    assert deadline_of(None, -5, 1000) == 1


def test_a_restored_path_leads_to_the_live_or_the_deleted_but_not_the_expired_stream() -> None:
    old, live = stream(1, "a", Life.EXPIRED), stream(2, "a")
    deleted = stream(3, "b", Life.DELETED)
    state = Streams.restore([old, live, deleted], next_id=9)
    assert state.by_id == {1: old, 2: live, 3: deleted}
    assert state.by_path == {"a": live, "b": deleted}
    assert state.next_id == 9
