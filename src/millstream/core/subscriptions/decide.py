"""Decide what a command to a subscription does: events to write, and the answer to give.

Pure, like the streams' ``decide``. What concerns wakes stands in ``wakes``; what follows from
events, of whatever command, in ``react``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO
from millstream.core.streams.commands import DONE
from millstream.core.streams.decide import Draft, refused
from millstream.core.streams.state import Life
from millstream.core.subscriptions import facts, glob, wakes
from millstream.core.subscriptions.commands import (
    AckWake,
    AnnounceWake,
    ClaimWake,
    CreateSubscription,
    DeleteSubscription,
    ExpireLease,
    GetDelivery,
    GetSubscription,
    LinkFacts,
    LinkStreams,
    ListWakes,
    ReleaseWake,
    SubscriptionCommand,
    SubscriptionFacts,
    UnlinkStream,
    WakeFacts,
    Wakes,
    WebhookOutcome,
)
from millstream.core.subscriptions.events import (
    LinksAdded,
    LinksRemoved,
    Mark,
    SubscriptionConfig,
    SubscriptionCreated,
    SubscriptionDeleted,
)
from millstream.core.subscriptions.react import react
from millstream.core.subscriptions.state import Phase

if TYPE_CHECKING:
    from millstream.core.events import Event
    from millstream.core.streams.state import Streams
    from millstream.core.subscriptions.state import Subscriptions

SUBSCRIPTIONS_MAX = 10_000
"""One append may wake every subscription there is, and a frame holds 65,535 events."""


def decide(
    state: Subscriptions, streams: Streams, command: SubscriptionCommand, now_ms: int
) -> Draft:
    """Decide ``command``; queries write nothing and answer from the state."""
    match command:
        case AckWake():
            return wakes.ack(state, streams, command, now_ms)
        case ClaimWake():
            return wakes.claim(state, streams, command, now_ms)
        case ReleaseWake():
            return wakes.release(state, command)
        case WebhookOutcome():
            return wakes.outcome(state, command, now_ms)
        case ExpireLease(sub_no, generation):
            return wakes.expire(state, sub_no, generation, now_ms)
        case AnnounceWake(sub_no, generation):
            return wakes.announce(state, sub_no, generation, now_ms)
        case CreateSubscription():
            return _create(state, streams, command, now_ms)
        case DeleteSubscription(sub_id):
            subscription = state.by_id.get(sub_id)
            if subscription is None:
                return wakes.missing(sub_id)
            return _draft((SubscriptionDeleted(subscription.sub_no),), DONE)
        case LinkStreams():
            return _link(state, streams, command, now_ms)
        case UnlinkStream():
            return _unlink(state, command)
        case GetSubscription() | GetDelivery() | ListWakes():
            return refused(_look(state, streams, command))


def _look(
    state: Subscriptions, streams: Streams, query: GetSubscription | GetDelivery | ListWakes
) -> object:
    match query:
        case GetSubscription(sub_id):
            subscription = state.by_id.get(sub_id)
            if subscription is None:
                return wakes.missing(sub_id).answer
            return facts.of_subscription(subscription, streams)
        case GetDelivery(sub_no, generation):
            subscription = state.by_no.get(sub_no)
            if (
                subscription is None
                or subscription.generation != generation
                or subscription.phase is not Phase.WAKING
            ):
                return None
            return facts.of_delivery(state, subscription, streams)
        case ListWakes():
            return Wakes(
                tuple(
                    WakeFacts(
                        each.sub_no,
                        each.generation,
                        each.is_webhook,
                        each.lease_until_ms if each.phase is Phase.HELD else 0,
                        each.next_attempt_ms if each.phase is Phase.WAKING else 0,
                    )
                    for each in state.by_no.values()
                    if each.phase is not Phase.IDLE
                )
            )


def _create(
    state: Subscriptions, streams: Streams, command: CreateSubscription, now_ms: int
) -> Draft:
    known = state.by_id.get(command.sub_id)
    if known is not None:
        difference = _difference(known.config, command.config)
        if difference is None:
            return refused(facts.of_subscription(known, streams))
        return refused(
            Refused(
                code=Code.SUBSCRIPTION_EXISTS,
                detail=f"the subscription exists with another {difference}",
                field=difference,
            )
        )
    if len(state.by_no) >= SUBSCRIPTIONS_MAX:
        return refused(
            Refused(
                code=Code.TOO_MANY_SUBSCRIPTIONS,
                detail=f"the server holds at most {SUBSCRIPTIONS_MAX} subscriptions",
                retry_after_s=60,
            )
        )
    config, sub_no = command.config, state.next_no
    by_name = tuple(_mark(streams, path, now_ms) for path in config.streams)
    by_pattern = _backfill(streams, config, now_ms)
    events: tuple[Event, ...] = (
        SubscriptionCreated(sub_no, command.sub_id, config, now_ms, command.base_url),
    )
    if by_name:
        events += (LinksAdded(sub_no, is_explicit=True, marks=by_name),)
    if by_pattern:
        events += (LinksAdded(sub_no, is_explicit=False, marks=by_pattern),)
    named = set(config.streams)
    links = [LinkFacts(each.path, True, each.position, each.position) for each in by_name]
    links += [
        LinkFacts(each.path, False, each.position, each.position)
        for each in by_pattern
        if each.path not in named
    ]
    answer = SubscriptionFacts(
        sub_no, command.sub_id, config, now_ms, is_failing=False, links=tuple(links), is_new=True
    )
    return _draft(events, answer)


def _difference(known: SubscriptionConfig, wanted: SubscriptionConfig) -> str | None:
    """Return the first field in which two set-ups differ, by its name in the request."""
    names = {"kind": "type", "webhook_url": "webhook.url"}
    for name in known.__struct_fields__:
        if getattr(known, name) != getattr(wanted, name):
            return names.get(name, name)
    return None


def _mark(streams: Streams, path: str, now_ms: int) -> Mark:
    """Return the tail of the stream at ``path``, or a mark that waits for one."""
    stream = streams.by_path.get(path)
    if stream is None or stream.life is not Life.LIVE or stream.is_expired(now_ms):
        return Mark(path, 0, ZERO)
    return Mark(path, stream.stream_id, stream.tail)


def _backfill(streams: Streams, config: SubscriptionConfig, now_ms: int) -> tuple[Mark, ...]:
    if config.pattern is None:
        return ()
    pattern = glob.split(config.pattern)
    return tuple(
        Mark(path, stream.stream_id, stream.tail)
        for path, stream in streams.by_path.items()
        if stream.life is Life.LIVE
        and not stream.is_expired(now_ms)
        and path != config.wake_stream
        and glob.matches(pattern, glob.split(path))
    )


def _link(state: Subscriptions, streams: Streams, command: LinkStreams, now_ms: int) -> Draft:
    subscription = state.by_id.get(command.sub_id)
    if subscription is None:
        return wakes.missing(command.sub_id)
    if subscription.config.wake_stream in command.paths:
        return refused(
            Refused(
                code=Code.INVALID_BODY,
                detail="a subscription cannot watch its own wake stream",
                field="streams",
            )
        )
    marks = []
    for path in dict.fromkeys(command.paths):
        link = subscription.links.get(path)
        if link is None:
            marks.append(_mark(streams, path, now_ms))
        elif not link.is_explicit:
            marks.append(Mark(path, link.stream_id, link.acked))
    if not marks:
        return refused(DONE)
    event = LinksAdded(subscription.sub_no, is_explicit=True, marks=tuple(marks))
    return _draft((event,), DONE)


def _unlink(state: Subscriptions, command: UnlinkStream) -> Draft:
    subscription = state.by_id.get(command.sub_id)
    if subscription is None:
        return wakes.missing(command.sub_id)
    link = subscription.links.get(command.path)
    if link is None or not link.is_explicit:
        return refused(DONE)
    event = LinksRemoved(subscription.sub_no, is_explicit=True, paths=(command.path,))
    return _draft((event,), DONE)


def _draft(events: tuple[Event, ...], answer: object) -> Draft:
    return Draft(events, (b"",) * len(events), answer)


__all__ = ["SUBSCRIPTIONS_MAX", "decide", "react"]
