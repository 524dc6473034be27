"""Events are the on-disk format: tags and the order of fields must never change."""

import typing

import msgspec
import pytest

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
)
from millstream.format.events import decode_event, encode_event

# Written down by hand: a change of this list is a change of the format.
ON_DISK: list[tuple[Event, list[object]]] = [
    (
        StreamCreated(7, "a/b", "text/plain", 5, 60, None, Fork(3, "a", 2, 1, 2, 4)),
        [1, 7, "a/b", "text/plain", 5, 60, None, [3, "a", 2, 1, 2, 4, 0]],
    ),
    (
        Appended(7, 2, 3, 9, b"\1\0\0\0", "p", 1, 4, "s"),
        [2, 7, 2, 3, 9, b"\1\0\0\0", "p", 1, 4, "s"],
    ),
    (StreamClosed(7, 9, "p", 1, 5), [3, 7, 9, "p", 1, 5]),
    (ProducerMoved(7, "p", 1, 5), [4, 7, "p", 1, 5]),
    (DeadlineMoved(7, 99), [5, 7, 99]),
    (StreamHidden(7, True), [6, 7, True]),
    (StreamRemoved(7), [7, 7]),
]


@pytest.mark.parametrize("event, fields", ON_DISK, ids=lambda value: type(value).__name__)
def test_an_event_is_a_tagged_array_in_this_order(event: Event, fields: list[object]) -> None:
    assert msgspec.msgpack.decode(encode_event(event)) == fields
    assert decode_event(msgspec.msgpack.encode(fields)) == event


def test_what_older_builds_left_out_takes_its_default() -> None:
    assert decode_event(msgspec.msgpack.encode([2, 7, 0, 1, 9])) == Appended(7, 0, 1, 9)
    assert decode_event(msgspec.msgpack.encode([3, 7, 9])) == StreamClosed(7, 9)


def test_no_two_events_share_a_tag() -> None:
    tags = [kind.__struct_config__.tag for kind in typing.get_args(Event)]
    assert len(tags) == len(set(tags))
    assert all(isinstance(tag, int) for tag in tags)


def test_a_deadline_beyond_63_bits_is_still_written() -> None:
    # The largest TTL that a header can ask for, with its slack.
    event = DeadlineMoved(1, 2**53 * 1000 + 2**53 * 125)
    assert decode_event(encode_event(event)) == event
