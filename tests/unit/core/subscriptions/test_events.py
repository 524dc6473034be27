"""Events of subscriptions keep their tags and come back from bytes as they were."""

import pytest

from millstream.core.events import Event
from millstream.core.offsets import Position
from millstream.core.subscriptions.events import (
    AcksMoved,
    LeaseExtended,
    LinksAdded,
    LinksRemoved,
    Mark,
    RetryScheduled,
    SubscriptionCreated,
    SubscriptionDeleted,
    WakeClaimed,
    WakeEnded,
    WakeIssued,
)
from millstream.format.events import decode_event, encode_event
from tests.support.subscribing import webhook

MARKS = (Mark("a/b", 7, Position(1000, 3)),)
EVENTS: list[tuple[int, Event]] = [
    (32, SubscriptionCreated(1, "s", webhook(), 5, "http://localhost")),
    (33, SubscriptionDeleted(1)),
    (34, LinksAdded(1, True, MARKS)),
    (35, LinksRemoved(1, False, ("a/b",))),
    (36, WakeIssued(1, 2, True, 5, 5, MARKS)),
    (37, WakeClaimed(1, 2, "w", 9, MARKS)),
    (38, LeaseExtended(1, 2, 9)),
    (39, AcksMoved(1, MARKS)),
    (40, WakeEnded(1, 2)),
    (41, RetryScheduled(1, 2, True, 3, 9)),
]


@pytest.mark.parametrize("tag,event", EVENTS)
def test_an_event_keeps_its_tag_and_its_fields(tag: int, event: Event) -> None:
    assert type(event).__struct_config__.tag == tag
    assert decode_event(encode_event(event)) == event
