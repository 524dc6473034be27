"""A replay arrives at the same state, and a restart neither loses nor doubles a lease."""

from collections.abc import Callable

import pytest

from millstream.core.checks import InvariantBroken
from millstream.core.events import StreamClosed
from millstream.core.offsets import ZERO, Position
from millstream.core.streams.state import Streams
from millstream.core.subscriptions import apply
from millstream.core.subscriptions.commands import ExpireLease, Outcome, WebhookOutcome
from millstream.core.subscriptions.events import (
    AcksMoved,
    LinksAdded,
    Mark,
    SubscriptionCreated,
    WakeClaimed,
    WakeIssued,
)
from millstream.core.subscriptions.state import Phase, Subscriptions
from tests.support.subscribing import World, pull, webhook

RESTARTS = [World.restart, World.restart_from_snapshot]


@pytest.mark.parametrize("restart", RESTARTS)
def test_a_restart_keeps_links_cursors_and_wakes(restart: Callable[[World], None]) -> None:
    world = World()
    world.create("wake")
    world.subscribe("p", pull("events/*", "named", "later"))
    world.subscribe("h", webhook())
    world.create("events/a", "1", "2")
    world.create("named", "1")
    world.ack(world.claimed("p"), "events/a", done=True)
    world.do(WebhookOutcome(world.sub("h").sub_no, 1, 0, Outcome.FAILED, 0.5))
    before = [world.sub("p"), world.sub("h")]
    pending = [world.pending("p"), world.pending("h")]
    restart(world)
    assert [world.sub("p"), world.sub("h")] == before
    assert [world.pending("p"), world.pending("h")] == pending
    world.create("later", "1")
    assert "later" in world.pending("p")
    world.create("events/b", "1")
    assert "events/b" in world.pending("h")


@pytest.mark.parametrize("restart", RESTARTS)
def test_a_lease_lasts_its_whole_time_again_after_a_restart(
    restart: Callable[[World], None],
) -> None:
    world = World()
    world.subscribe("s", pull())
    world.create("events/a", "1")
    held = world.claimed()
    world.now_ms += 50_000
    restart(world)
    assert (world.sub().phase, world.sub().holder) == (Phase.HELD, "w1")
    assert world.sub().lease_until_ms == world.now_ms + 1000
    world.now_ms += 999
    world.do(ExpireLease(held.sub_no, held.generation))
    assert world.sub().holder == "w1"
    world.now_ms += 1
    world.do(ExpireLease(held.sub_no, held.generation))
    assert (world.sub().holder, world.sub().generation) == (None, 2)


def test_a_retry_keeps_its_place_in_the_schedule_over_a_restart() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("events/a", "1")
    world.do(WebhookOutcome(1, 1, 0, Outcome.FAILED, 0.0))
    due_ms = world.sub().next_attempt_ms
    world.restart()
    assert (world.sub().next_attempt_ms, world.sub().attempts) == (due_ms, 1)


def test_a_clock_set_back_does_not_stretch_a_retry() -> None:
    world = World()
    world.subscribe("s", webhook())
    world.create("events/a", "1")
    world.do(WebhookOutcome(1, 1, 0, Outcome.FAILED, 0.0))
    world.now_ms -= 900_000
    world.restart()
    assert world.sub().next_attempt_ms == world.now_ms + apply.RETRY_MS_MAX


def made() -> tuple[Subscriptions, Streams]:
    state, streams = Subscriptions.empty(), Streams.empty()
    apply.apply(state, streams, SubscriptionCreated(1, "s", pull(), 0))
    return state, streams


def test_broken_histories_are_noticed() -> None:
    state, streams = made()
    apply.apply(state, streams, LinksAdded(1, True, (Mark("a", 5, Position(9, 3)),)))
    apply.apply(state, streams, WakeIssued(1, 1, False, 0, 0, ()))
    apply.apply(state, streams, WakeClaimed(1, 1, "w", 9, ()))
    for event in (
        SubscriptionCreated(1, "t", pull(), 0),
        SubscriptionCreated(2, "s", pull(), 0),
        AcksMoved(1, (Mark("a", 6, Position(9, 3)),)),
        AcksMoved(1, (Mark("a", 5, Position(9, 2)),)),
        WakeIssued(1, 3, False, 0, 0, ()),
        WakeIssued(1, 2, False, 0, 0, ()),
        WakeClaimed(1, 1, "x", 9, ()),
        StreamClosed(1, 0),
    ):
        with pytest.raises(InvariantBroken):
            apply.apply(state, streams, event)


def test_a_link_without_a_stream_has_nothing_pending() -> None:
    state, streams = made()
    apply.apply(state, streams, LinksAdded(1, True, (Mark("a", 0, ZERO),)))
    link = state.by_no[1].links["a"]
    assert apply.stream_of(link, streams) is None
    assert not apply.is_pending(link, streams)
