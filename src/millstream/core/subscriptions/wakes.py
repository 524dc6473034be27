"""Decide claims, acks, releases, and how deliveries and leases end.

None of these issues the next wake: ``react`` does, in the same frame, whenever a subscription is
left idle with pending work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.core.streams.commands import DONE
from millstream.core.streams.decide import Draft, refused
from millstream.core.subscriptions import facts
from millstream.core.subscriptions.apply import stream_of
from millstream.core.subscriptions.commands import (
    Ack,
    Acked,
    AckWake,
    Claimed,
    ClaimWake,
    Outcome,
    ReleaseWake,
    WebhookOutcome,
)
from millstream.core.subscriptions.events import (
    AcksMoved,
    LeaseExtended,
    Mark,
    RetryScheduled,
    WakeClaimed,
    WakeEnded,
    WakeIssued,
)
from millstream.core.subscriptions.state import RECEIVER, Phase, Subscription

if TYPE_CHECKING:
    from millstream.core.events import Event
    from millstream.core.streams.state import Stream, Streams
    from millstream.core.subscriptions.state import Link, Subscriptions

RETRY_MS_MIN = 1_000
RETRY_MS_CAP = 50_000
RETRY_JITTER = 0.2
"""A webhook is tried again after 1 s, 2 s, 4 s … 50 s, plus up to a fifth: never after 60 s."""

ANNOUNCE_MS_MIN = 30_000
ANNOUNCE_MS_MAX = 3_600_000
"""An unclaimed pull-wake is announced again after its lease time (at least 30 s), then ever more
rarely: a worker that died between reading the wake and claiming it must not end the work."""


def missing(sub_id: str) -> Draft:
    """Refuse: there is no such subscription."""
    return refused(
        Refused(code=Code.SUBSCRIPTION_NOT_FOUND, detail=f"no subscription has the id {sub_id!r}")
    )


def retry_delay_ms(attempts: int, jitter: float) -> int:
    """Return how long to wait after the ``attempts``-th failure in a row."""
    base_ms = min(RETRY_MS_MIN << min(attempts - 1, 16), RETRY_MS_CAP)
    return int(base_ms * (1 + RETRY_JITTER * jitter))


def announce_delay_ms(lease_ttl_ms: int, attempts: int) -> int:
    """Return how long an announced pull-wake may stay unclaimed before it is announced again."""
    return min(max(lease_ttl_ms, ANNOUNCE_MS_MIN) << min(attempts, 16), ANNOUNCE_MS_MAX)


def claim(state: Subscriptions, streams: Streams, command: ClaimWake, now_ms: int) -> Draft:
    """Let a worker hold the wake, unless somebody does or there is nothing to do."""
    subscription = state.by_id.get(command.sub_id)
    if subscription is None:
        return missing(command.sub_id)
    if subscription.is_webhook:
        return refused(
            Refused(
                code=Code.BAD_REQUEST,
                detail="only pull-wake subscriptions are claimed; this one posts to its webhook",
            )
        )
    is_held = subscription.phase is Phase.HELD
    if is_held and now_ms < subscription.lease_until_ms:
        return refused(
            Refused(
                code=Code.ALREADY_CLAIMED,
                detail=f"{subscription.holder!r} holds generation {subscription.generation}",
                holder=subscription.holder,
                generation=subscription.generation,
            )
        )
    tails = facts.of_pending(state, subscription, streams)
    if not tails:
        return refused(
            Refused(code=Code.NO_PENDING_WORK, detail="every linked stream is acked to its end")
        )
    generation = subscription.generation
    events: tuple[Event, ...] = ()
    if is_held:
        # The lease is over and only its alarm is late: end it here and wake anew.
        events = (WakeEnded(subscription.sub_no, generation),)
    if subscription.phase is not Phase.WAKING:
        generation += 1
        events += (WakeIssued(subscription.sub_no, generation, False, now_ms, now_ms, tails),)
    ttl_ms = subscription.config.lease_ttl_ms
    events += (
        WakeClaimed(subscription.sub_no, generation, command.worker, now_ms + ttl_ms, tails),
    )
    answer = Claimed(
        subscription.sub_no,
        subscription.sub_id,
        generation,
        f"w_{subscription.sub_no}_{generation}",
        ttl_ms,
        facts.of_wake(state, subscription, streams, tails),
    )
    return _draft(events, answer)


def ack(state: Subscriptions, streams: Streams, command: AckWake, now_ms: int) -> Draft:
    """Move cursors for the holder of the wake; extend its lease, or end it when it is done."""
    subscription = _holding(state, command)
    if isinstance(subscription, Refused):
        return refused(subscription)
    marks = _check_acks(subscription, streams, command.acks)
    if isinstance(marks, Refused):
        return refused(marks)
    sub_no, generation = subscription.sub_no, subscription.generation
    events: tuple[Event, ...] = (AcksMoved(sub_no, marks),) if marks else ()
    lease_until_ms = now_ms + subscription.config.lease_ttl_ms
    is_next_wake = False
    if command.is_done:
        events += (WakeEnded(sub_no, generation),)
        is_next_wake = _is_work_left(state, subscription, streams, marks)
    elif subscription.phase is Phase.WAKING:
        # The receiver calls back before its answer to the delivery came: it has the wake.
        events += (WakeClaimed(sub_no, generation, RECEIVER, lease_until_ms, ()),)
    else:
        events += (LeaseExtended(sub_no, generation, lease_until_ms),)
    return _draft(events, Acked(is_next_wake))


def release(state: Subscriptions, command: ReleaseWake) -> Draft:
    """Take the wake back from its holder, with no cursor moved."""
    subscription = _holding(state, command)
    if isinstance(subscription, Refused):
        return refused(subscription)
    return _draft((WakeEnded(subscription.sub_no, subscription.generation),), DONE)


def expire(state: Subscriptions, sub_no: int, generation: int, now_ms: int) -> Draft:
    """End a lease that has run out; one that was extended or ended is left alone."""
    subscription = state.by_no.get(sub_no)
    if (
        subscription is None
        or subscription.generation != generation
        or subscription.phase is not Phase.HELD
        or now_ms < subscription.lease_until_ms
    ):
        return refused(DONE)
    return _draft((WakeEnded(sub_no, generation),), DONE)


def announce(state: Subscriptions, sub_no: int, generation: int, now_ms: int) -> Draft:
    """Announce an unclaimed pull-wake again (``react`` writes it) and plan the next time."""
    subscription = state.by_no.get(sub_no)
    if (
        subscription is None
        or subscription.is_webhook
        or subscription.generation != generation
        or subscription.phase is not Phase.WAKING
        or now_ms < subscription.next_attempt_ms
    ):
        return refused(DONE)
    attempts = subscription.attempts + 1
    delay_ms = announce_delay_ms(subscription.config.lease_ttl_ms, attempts)
    return _draft((RetryScheduled(sub_no, generation, False, attempts, now_ms + delay_ms),), DONE)


def outcome(state: Subscriptions, command: WebhookOutcome, now_ms: int) -> Draft:
    """Take note of how a delivery ended; one for a wake that is over changes nothing."""
    subscription = state.by_no.get(command.sub_no)
    if (
        subscription is None
        or not subscription.is_webhook
        or subscription.generation != command.generation
        or subscription.phase is Phase.IDLE
    ):
        return refused(DONE)
    sub_no, generation = subscription.sub_no, subscription.generation
    if command.outcome is Outcome.DONE:
        # What counts is what was sent, not what has been appended since.
        marks = tuple(_ahead(subscription, subscription.tails))
        events: tuple[Event, ...] = (AcksMoved(sub_no, marks),) if marks else ()
        return _draft((*events, WakeEnded(sub_no, generation)), DONE)
    if subscription.phase is Phase.HELD or subscription.attempts != command.attempts:
        return refused(DONE)
    if command.outcome is Outcome.ACCEPTED:
        lease_until_ms = now_ms + subscription.config.lease_ttl_ms
        return _draft((WakeClaimed(sub_no, generation, RECEIVER, lease_until_ms, ()),), DONE)
    attempts = subscription.attempts + 1
    next_ms = now_ms + retry_delay_ms(attempts, command.jitter)
    return _draft((RetryScheduled(sub_no, generation, True, attempts, next_ms),), DONE)


def _holding(state: Subscriptions, command: AckWake | ReleaseWake) -> Subscription | Refused:
    """Return the subscription if the caller holds its present wake, by token and by word."""
    subscription = state.by_id.get(command.sub_id)
    if subscription is None:
        answer = missing(command.sub_id).answer
        assert isinstance(answer, Refused)
        return answer
    grant = command.grant
    is_current = (
        subscription.phase is not Phase.IDLE
        and grant.sub_no == subscription.sub_no
        and grant.generation == command.generation == subscription.generation
        and grant.wake_id == command.wake_id == subscription.wake_id
    )
    if is_current:
        return subscription
    return Refused(
        code=Code.FENCED,
        detail=f"wake {command.wake_id!r} of generation {command.generation} is over",
        generation=subscription.generation,
    )


def _check_acks(
    subscription: Subscription, streams: Streams, acks: tuple[Ack, ...]
) -> tuple[Mark, ...] | Refused:
    shown = {mark.path: mark.stream_id for mark in subscription.tails}
    marks: dict[str, Mark] = {}
    for number, each in enumerate(acks):
        link = subscription.links.get(each.path)
        stream = stream_of(link, streams) if link is not None else None
        detail: str | None
        if link is None or stream is None:
            detail = f"no stream {each.path!r} is linked"
        elif shown.get(each.path, stream.stream_id) != stream.stream_id:
            detail = f"{each.path!r} was deleted and created again since this wake"
        else:
            detail = _fault(link, stream, each)
        if detail is not None:
            return Refused(code=Code.INVALID_OFFSET, detail=detail, field=f"acks[{number}]")
        assert stream is not None
        known = marks.get(each.path)
        if known is None or each.position.index > known.position.index:
            marks[each.path] = Mark(each.path, stream.stream_id, each.position)
    return tuple(_ahead(subscription, tuple(marks.values())))


def _fault(link: Link, stream: Stream, wanted: Ack) -> str | None:
    """Return why a stream cannot be acked up to there, or None when it can."""
    position, acked, tail = wanted.position, link.acked, stream.tail
    name = f"offset {position.text()} of {wanted.path!r}"
    if position.index > tail.index:
        return f"{name} is behind the stream's end, {tail.text()}"
    if position.index < acked.index:
        return f"{name} is before {acked.text()}, which is acked: cursors never move back"
    if position.index == acked.index:
        is_right = position == acked
    elif position.index == tail.index:
        is_right = position == tail
    else:
        # Behind the cursor there are only messages of this incarnation, none older than it.
        is_right = max(acked.time_ms, stream.created_ms) <= position.time_ms <= tail.time_ms
    if not is_right:
        return f"{name} is not an offset of this stream"
    return None


def _ahead(subscription: Subscription, marks: tuple[Mark, ...]) -> list[Mark]:
    """Return the marks that move a cursor of a stream that is still linked."""
    links = subscription.links
    return [
        mark
        for mark in marks
        if (link := links.get(mark.path)) is not None
        and link.stream_id == mark.stream_id
        and mark.position.index > link.acked.index
    ]


def _is_work_left(
    state: Subscriptions, subscription: Subscription, streams: Streams, marks: tuple[Mark, ...]
) -> bool:
    moved = {mark.path: mark.position.index for mark in marks}
    for path in state.pending[subscription.sub_no]:
        stream = stream_of(subscription.links[path], streams)
        if stream is not None and moved.get(path, -1) < stream.tail_index:
            return True
    return False


def _draft(events: tuple[Event, ...], answer: object) -> Draft:
    return Draft(events, (b"",) * len(events), answer)
