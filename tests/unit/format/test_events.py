import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.core.events import (
    Appended,
    Event,
    StreamClosed,
    StreamCreated,
    StreamRemoved,
    VersionRaised,
)
from millstream.format.events import decode_event, encode_event

EVENTS: list[Event] = [
    StreamCreated(1, "a/b", "application/json", 5, None, None, None),
    Appended(1, 0, 3, 7, b"\x01\x00\x00\x00", "p", 2, 9, None),
    StreamClosed(1, 9),
    StreamRemoved(4),
    VersionRaised(4, 2**53 - 1),
]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_as_it_was_written(event: Event) -> None:
    meta = encode_event(event)
    assert decode_event(meta) == event
    assert decode_event(memoryview(meta)) == event


def test_an_event_has_its_golden_bytes() -> None:
    assert encode_event(StreamRemoved(4)) == bytes.fromhex("920704")
    assert encode_event(VersionRaised(4, 9)) == bytes.fromhex("93080409")


@given(st.binary(max_size=60))
def test_other_bytes_raise_one_kind_of_error(data: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError):
        decode_event(data)
