"""Apply a subscription event to the state. Replay after a restart goes through here too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.checks import require
from millstream.core.streams.state import Life
from millstream.core.subscriptions.events import (
    AcksMoved,
    LeaseExtended,
    LinksAdded,
    LinksRemoved,
    RetryScheduled,
    SubscriptionCreated,
    SubscriptionDeleted,
    WakeClaimed,
    WakeEnded,
    WakeIssued,
)
from millstream.core.subscriptions.state import Link, Phase, Subscription, Subscriptions

if TYPE_CHECKING:
    from millstream.core.events import Event
    from millstream.core.streams.state import Stream, Streams

RETRY_MS_MAX = 60_000
"""No webhook waits longer than this for its next attempt."""


def apply(state: Subscriptions, streams: Streams, event: Event) -> None:
    """Change the state as ``event`` says."""
    match event:
        case LinksAdded():
            _links_added(state, streams, event)
        case LinksRemoved():
            _links_removed(state, event)
        case AcksMoved():
            _acks_moved(state, streams, event)
        case SubscriptionCreated(sub_no, sub_id, config, created_ms, base_url):
            require(sub_no == state.next_no, "I-30", "a subscription number is given once")
            require(sub_id not in state.by_id, "I-31", "an id names one subscription")
            state.next_no += 1
            state.insert(Subscription(sub_no, sub_id, config, created_ms, base_url, {}))
        case SubscriptionDeleted(sub_no):
            state.discard(state.by_no[sub_no])
        case _:
            _wake_changed(state, event)


def settle(state: Subscriptions, streams: Streams, now_ms: int) -> None:
    """After a replay: find what is pending, and let every lease start anew.

    The clock of this life knows nothing of the last one's, so a holder gets its whole time again:
    it neither loses its lease to the restart nor has a second holder beside it. A retry keeps its
    place in the schedule, but never waits longer than the longest delay from now.
    """
    for subscription in state.by_no.values():
        pending = state.pending[subscription.sub_no]
        pending.clear()
        for link in subscription.links.values():
            if is_pending(link, streams):
                pending[link.path] = None
        if subscription.phase is Phase.HELD:
            subscription.lease_until_ms = now_ms + subscription.config.lease_ttl_ms
        elif subscription.is_webhook and subscription.phase is Phase.WAKING:
            subscription.next_attempt_ms = min(subscription.next_attempt_ms, now_ms + RETRY_MS_MAX)


def stream_of(link: Link, streams: Streams) -> Stream | None:
    """Return the live stream that a link's cursor is a position of, if it is still there."""
    stream = streams.by_id.get(link.stream_id)
    return stream if stream is not None and stream.life is Life.LIVE else None


def is_pending(link: Link, streams: Streams) -> bool:
    """Tell whether the linked stream holds messages behind the cursor."""
    stream = stream_of(link, streams)
    return stream is not None and stream.tail_index > link.acked.index


def _links_added(state: Subscriptions, streams: Streams, event: LinksAdded) -> None:
    subscription = state.by_no[event.sub_no]
    pending = state.pending[event.sub_no]
    for mark in event.marks:
        link = subscription.links.get(mark.path)
        if link is None:
            link = subscription.links[mark.path] = Link(mark.path, mark.stream_id, mark.position)
        elif link.stream_id != mark.stream_id:
            state.unindex(subscription, link)
            link.stream_id, link.acked = mark.stream_id, mark.position
        if event.is_explicit:
            link.is_explicit = True
        else:
            link.is_glob = True
        state.index(subscription, link)
        if is_pending(link, streams):
            pending[link.path] = None


def _links_removed(state: Subscriptions, event: LinksRemoved) -> None:
    subscription = state.by_no[event.sub_no]
    for path in event.paths:
        link = subscription.links[path]
        state.unindex(subscription, link)
        if event.is_explicit:
            link.is_explicit = False
        else:
            link.is_glob = False
        if link.is_explicit or link.is_glob:
            state.index(subscription, link)
        else:
            del subscription.links[path]
        if event.is_explicit and path not in subscription.links:
            # What a vanished stream had pending is taken back where its vanishing is noticed.
            state.pending[event.sub_no].pop(path, None)


def _acks_moved(state: Subscriptions, streams: Streams, event: AcksMoved) -> None:
    subscription = state.by_no[event.sub_no]
    pending = state.pending[event.sub_no]
    for mark in event.marks:
        link = subscription.links[mark.path]
        require(link.stream_id == mark.stream_id, "I-32", "a cursor stays in its incarnation")
        require(mark.position.index >= link.acked.index, "I-33", "a cursor never moves back")
        link.acked = mark.position
        if not is_pending(link, streams):
            pending.pop(mark.path, None)


def _wake_changed(state: Subscriptions, event: Event) -> None:
    match event:
        case WakeIssued(sub_no, generation, _, _, next_attempt_ms, tails):
            subscription = state.by_no[sub_no]
            require(generation == subscription.generation + 1, "I-34", "generations only grow")
            require(subscription.phase is Phase.IDLE, "I-35", "one wake at a time")
            subscription.generation = generation
            subscription.phase = Phase.WAKING
            subscription.tails = tails
            subscription.attempts, subscription.next_attempt_ms = 0, next_attempt_ms
        case WakeClaimed(sub_no, _, worker, lease_until_ms, tails):
            subscription = state.by_no[sub_no]
            require(subscription.holder is None, "I-36", "a wake has at most one holder")
            subscription.phase, subscription.holder = Phase.HELD, worker
            subscription.lease_until_ms = lease_until_ms
            subscription.attempts = subscription.next_attempt_ms = 0
            subscription.tails = tails or subscription.tails
        case LeaseExtended(sub_no, _, lease_until_ms):
            state.by_no[sub_no].lease_until_ms = lease_until_ms
        case WakeEnded(sub_no):
            subscription = state.by_no[sub_no]
            subscription.phase, subscription.holder = Phase.IDLE, None
            subscription.tails = ()
            subscription.lease_until_ms = 0
            subscription.attempts = subscription.next_attempt_ms = 0
        case RetryScheduled(sub_no, _, _, attempts, next_attempt_ms):
            subscription = state.by_no[sub_no]
            subscription.attempts = attempts
            subscription.next_attempt_ms = next_attempt_ms
        case _:
            require(False, "I-37", f"{type(event).__name__} is no event of a subscription")
