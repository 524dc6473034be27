"""What answers and deliveries say about a subscription's streams."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from millstream.core.subscriptions.apply import stream_of
from millstream.core.subscriptions.commands import Delivery, LinkFacts, SubscriptionFacts
from millstream.core.subscriptions.events import Mark

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.core.streams.state import Streams
    from millstream.core.subscriptions.state import Link, Subscription, Subscriptions

STREAMS_MAX = 1000
"""At most so many streams are told of in one wake; what is pending beyond comes with the next."""


def of_link(link: Link, streams: Streams) -> LinkFacts:
    """Tell where a link's cursor and its stream's tail are."""
    stream = stream_of(link, streams)
    return LinkFacts(
        link.path, link.is_explicit, link.acked, link.acked if stream is None else stream.tail
    )


def of_subscription(subscription: Subscription, streams: Streams) -> SubscriptionFacts:
    """Tell all about a subscription."""
    return SubscriptionFacts(
        subscription.sub_no,
        subscription.sub_id,
        subscription.config,
        subscription.created_ms,
        subscription.is_failing,
        tuple(of_link(link, streams) for link in subscription.links.values()),
    )


def of_pending(
    state: Subscriptions, subscription: Subscription, streams: Streams
) -> tuple[Mark, ...]:
    """Return the tails of the pending streams, as many as one wake may tell of."""
    marks = []
    for path in islice(state.pending[subscription.sub_no], STREAMS_MAX):
        stream = stream_of(subscription.links[path], streams)
        if stream is not None:
            marks.append(Mark(path, stream.stream_id, stream.tail))
    return tuple(marks)


def of_wake(
    state: Subscriptions,
    subscription: Subscription,
    streams: Streams,
    tails: tuple[Mark, ...],
) -> tuple[LinkFacts, ...]:
    """Tell of the streams in ``tails``, up to there; then of others that have nothing pending."""
    links = subscription.links
    told = [
        LinkFacts(mark.path, link.is_explicit, link.acked, mark.position)
        for mark in tails
        if (link := links.get(mark.path)) is not None and link.stream_id == mark.stream_id
    ]
    others = _without_work(state, subscription, {mark.path for mark in tails})
    room = max(STREAMS_MAX - len(told), 0)
    told.extend(of_link(link, streams) for link in islice(others, room))
    return tuple(told)


def of_delivery(
    state: Subscriptions, subscription: Subscription, streams: Streams
) -> Delivery | None:
    """Tell what the webhook is to be sent for the present wake."""
    url = subscription.config.webhook_url
    if url is None:
        return None
    return Delivery(
        subscription.sub_no,
        subscription.sub_id,
        subscription.generation,
        subscription.wake_id,
        subscription.attempts,
        subscription.next_attempt_ms,
        url,
        subscription.base_url,
        of_wake(state, subscription, streams, subscription.tails),
    )


def _without_work(
    state: Subscriptions, subscription: Subscription, told: set[str]
) -> Iterator[Link]:
    pending = state.pending[subscription.sub_no]
    for link in subscription.links.values():
        if link.path not in pending and link.path not in told:
            yield link
