"""Events change the state, and those that cannot follow from it stop everything."""

import pytest

from millstream.core.checks import InvariantBroken
from millstream.core.events import (
    Appended,
    DeadlineMoved,
    Event,
    Fork,
    ProducerMoved,
    StreamClosed,
    StreamCreated,
    StreamHidden,
    StreamRemoved,
    VersionRaised,
)
from millstream.core.machine import Bounds, Machine
from millstream.core.producers.judge import Claim, Producer
from millstream.core.streams.state import Life, Stream


def created(stream_id: int, path: str, fork: Fork | None = None) -> StreamCreated:
    return StreamCreated(stream_id, path, "text/plain", 100, None, None, fork)


def after(*events: Event) -> Machine:
    machine = Machine(Bounds())
    for event in events:
        machine.apply(event, 10)
    return machine


def one(machine: Machine) -> Stream:
    return machine.streams.by_id[1]


def test_an_append_moves_tail_bytes_sequence_and_producer_together() -> None:
    stream = one(after(created(1, "a"), Appended(1, 0, 3, 200, b"", "p", 2, 0, "s")))
    assert (stream.tail_index, stream.tail_time_ms, stream.stored_bytes) == (3, 200, 10)
    assert stream.seq == "s"
    assert stream.producers == {"p": Producer(2, 0, 3)}


def test_a_stream_without_producers_does_not_pay_for_a_map() -> None:
    assert one(after(created(1, "a"), Appended(1, 0, 1, 200))).producers is None


def test_a_version_rises_and_changes_nothing_else() -> None:
    plain = one(after(created(1, "a"), Appended(1, 0, 1, 200)))
    raised = one(after(created(1, "a"), Appended(1, 0, 1, 200), VersionRaised(1, 7)))
    assert (plain.version, raised.version) == (0, 7)
    raised.version = 0
    assert raised == plain


def test_a_closure_remembers_who_closed() -> None:
    assert one(after(created(1, "a"), StreamClosed(1, 200))).closed_by is None
    by = one(after(created(1, "a"), StreamClosed(1, 200, "p", 1, 2)))
    assert by.is_closed
    assert by.closed_by == Claim("p", 1, 2)


def test_a_used_up_sequence_ends_at_the_tail() -> None:
    stream = one(after(created(1, "a"), Appended(1, 0, 2, 200), ProducerMoved(1, "p", 0, 0)))
    assert stream.producers == {"p": Producer(0, 0, 2)}


def test_a_logged_deadline_never_moves_back_and_counts_after_a_replay() -> None:
    machine = after(created(1, "a"), DeadlineMoved(1, 900), DeadlineMoved(1, 500))
    assert (one(machine).logged_deadline_ms, one(machine).deadline_ms) == (900, 0)
    machine.settle(0)
    assert one(machine).deadline_ms == 900


def test_hiding_keeps_a_deleted_path_taken_and_frees_an_expired_one() -> None:
    fork = created(2, "f", Fork(1, "a", 0, 0, 0, 0))
    deleted = after(created(1, "a"), fork, StreamHidden(1, is_expired=False))
    assert one(deleted).life is Life.DELETED
    assert deleted.streams.by_path["a"] is one(deleted)
    expired = after(created(1, "a"), fork, StreamHidden(1, is_expired=True))
    assert one(expired).life is Life.EXPIRED
    assert "a" not in expired.streams.by_path


def test_removing_lets_go_of_the_source() -> None:
    machine = after(created(1, "a"), created(2, "f", Fork(1, "a", 0, 0, 0, 0)))
    assert one(machine).forks == 1
    machine.apply(StreamRemoved(2), 0)
    assert one(machine).forks == 0


def test_removing_an_old_incarnation_leaves_the_path_to_the_new_one() -> None:
    machine = after(
        created(1, "a"),
        created(2, "f", Fork(1, "a", 0, 0, 0, 0)),
        StreamHidden(1, is_expired=True),
        created(3, "a"),
        StreamRemoved(2),
        StreamRemoved(1),
    )
    assert machine.streams.by_path["a"].stream_id == 3


BROKEN: list[tuple[str, list[Event]]] = [
    ("I-05", [created(1, "a"), Appended(1, 1, 1, 200)]),
    ("I-05", [created(1, "a"), Appended(1, 0, 2, 200), Appended(1, 1, 1, 200)]),
    ("I-06", [created(1, "a"), Appended(1, 0, 1, 200), Appended(1, 1, 1, 199)]),
    ("I-07", [created(2, "a")]),
    ("I-07", [created(1, "a"), StreamRemoved(1), created(1, "a")]),
    ("I-08", [created(1, "a"), created(2, "a")]),
    ("I-09", [created(1, "a"), StreamClosed(1, 200), Appended(1, 0, 1, 200)]),
    ("I-10", [created(1, "a"), StreamHidden(1, is_expired=False)]),
    ("I-38", [created(1, "a"), VersionRaised(1, 0)]),
    ("I-38", [created(1, "a"), VersionRaised(1, 5), VersionRaised(1, 5)]),
    ("I-38", [created(1, "a"), VersionRaised(1, 5), VersionRaised(1, 4)]),
    ("I-10", [created(1, "a"), created(2, "f", Fork(1, "a", 0, 0, 0, 0)), StreamRemoved(1)]),
]


@pytest.mark.parametrize("number, events", BROKEN)
def test_an_event_that_cannot_follow_is_stopped_by_its_invariant(
    number: str, events: list[Event]
) -> None:
    with pytest.raises(InvariantBroken) as caught:
        after(*events)
    assert caught.value.number == number


@pytest.mark.parametrize("event", [Appended(9, 0, 1, 1), StreamClosed(9, 1), StreamRemoved(9)])
def test_an_event_of_an_unknown_stream_is_an_error(event: Event) -> None:
    with pytest.raises(KeyError):
        after(event)
