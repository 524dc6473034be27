"""What follows for subscriptions from events that were just applied: links, wakes, announcements.

This is the only place that issues wakes, so the rule is stated once: a subscription that is idle
and has pending work is woken, in the very frame that made it so.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from millstream.core import media
from millstream.core.events import (
    Appended,
    DeadlineMoved,
    Event,
    ProducerMoved,
    StreamClosed,
    StreamCreated,
    StreamHidden,
    StreamRemoved,
    VersionRaised,
)
from millstream.core.offsets import ZERO, Position
from millstream.core.streams.decide import Draft
from millstream.core.streams.state import Life
from millstream.core.subscriptions.events import (
    LinksAdded,
    LinksRemoved,
    Mark,
    RetryScheduled,
    WakeEnded,
    WakeIssued,
)
from millstream.core.subscriptions.facts import STREAMS_MAX
from millstream.core.subscriptions.state import Phase, Subscription, Subscriptions
from millstream.core.subscriptions.wakes import announce_delay_ms

if TYPE_CHECKING:
    from millstream.core.streams.state import Stream, Streams

_INDIFFERENT = (ProducerMoved, StreamClosed, DeadlineMoved, VersionRaised)


class WakeEvent(msgspec.Struct, frozen=True):
    """What a pull-wake writes to its wake stream."""

    type: str
    subscription_id: str
    stream: str
    generation: int
    ts: int


def react(
    state: Subscriptions, streams: Streams, events: tuple[Event, ...], now_ms: int
) -> Draft | None:
    """Return what has to be written beside ``events``, which were applied already.

    Called for every command that changed something, so it leaves at once when no subscription
    can care.
    """
    if not state.by_no:
        return None
    linked = state.linked
    for event in events:
        kind = type(event)
        if kind is Appended:
            if event.stream_id in linked:  # type: ignore[union-attr]
                break
        elif kind not in _INDIFFERENT:
            break
    else:
        return None
    return _FollowUp(state, streams, now_ms).of(events)


class _FollowUp:
    """Gathers what follows from one command.

    It notes pending paths in the state at once (they are derived), and keeps for itself what the
    state will only show when its events are applied: the tails of wake streams, new links.
    """

    __slots__ = (
        "data",
        "events",
        "fresh",
        "issued",
        "now_ms",
        "queue",
        "state",
        "streams",
        "tails",
    )

    def __init__(self, state: Subscriptions, streams: Streams, now_ms: int) -> None:
        self.state = state
        self.streams = streams
        self.now_ms = now_ms
        self.events: list[Event] = []
        self.data: list[bytes] = []
        self.queue: deque[Subscription] = deque()
        self.issued: set[int] = set()
        self.fresh: dict[int, list[Subscription]] = {}
        self.tails: dict[int, Position] = {}

    def of(self, events: tuple[Event, ...]) -> Draft | None:
        self.unlink([e.stream_id for e in events if isinstance(e, StreamRemoved | StreamHidden)])
        for event in events:
            if isinstance(event, Appended):
                stream = self.streams.by_id.get(event.stream_id)
                if stream is not None:
                    self.append(stream)
            elif isinstance(event, StreamCreated):
                self.link(event)
            elif isinstance(event, RetryScheduled):
                self.announce_again(self.state.by_no[event.sub_no])
            else:
                subscription = self.state.by_no.get(getattr(event, "sub_no", 0))
                if subscription is not None:
                    self.queue.append(subscription)
        while self.queue:
            self.settle(self.queue.popleft())
        if not self.events:
            return None
        return Draft(tuple(self.events), tuple(self.data), None)

    def write(self, event: Event, data: bytes = b"") -> None:
        self.events.append(event)
        self.data.append(data)

    def unlink(self, stream_ids: list[int]) -> None:
        """Streams are gone: nothing of them is pending, and a pattern lets go of them.

        A link by name stays, to be taken up again when its path gets a new stream.
        """
        gone: dict[int, list[str]] = {}
        for stream_id in stream_ids:
            for sub_no, link in self.state.linked.get(stream_id, {}).items():
                self.state.pending[sub_no].pop(link.path, None)
                self.queue.append(self.state.by_no[sub_no])
                if link.is_glob:
                    gone.setdefault(sub_no, []).append(link.path)
        for sub_no, paths in gone.items():
            self.write(LinksRemoved(sub_no, is_explicit=False, paths=tuple(paths)))

    def link(self, event: StreamCreated) -> None:
        """A new stream: link it before its first message, by name and by pattern."""
        fork = event.fork
        start = Position(fork.base_time_ms, fork.base_index) if fork is not None else ZERO
        marks = (Mark(event.path, event.stream_id, start),)
        state = self.state
        by_name = [state.by_no[sub_no] for sub_no in state.named.get(event.path, ())]
        by_pattern = state.matching(event.path)
        for subscription in by_name:
            self.write(LinksAdded(subscription.sub_no, is_explicit=True, marks=marks))
        for subscription in by_pattern:
            self.write(LinksAdded(subscription.sub_no, is_explicit=False, marks=marks))
        found = {each.sub_no: each for each in (*by_name, *by_pattern)}
        self.fresh[event.stream_id] = list(found.values())
        for subscription in tuple(state.waking.get(event.path, {}).values()):
            # Whoever wakes through this stream could not say so before it was there.
            self.announce_again(subscription)

    def append(self, stream: Stream) -> None:
        """A stream has messages: they are pending wherever it is linked."""
        linked = self.state.linked.get(stream.stream_id, {})
        subscriptions = [self.state.by_no[sub_no] for sub_no in linked]
        subscriptions += self.fresh.get(stream.stream_id, ())
        for subscription in subscriptions:
            self.state.pending[subscription.sub_no][stream.path] = None
            self.queue.append(subscription)

    def settle(self, subscription: Subscription) -> None:
        """Wake a subscription that is idle with work; end a wake that has lost its work."""
        pending = self.state.pending[subscription.sub_no]
        if subscription.sub_no in self.issued:
            return
        if subscription.phase is Phase.IDLE and pending:
            self.issue(subscription)
        elif subscription.phase is Phase.WAKING and not pending:
            self.issued.add(subscription.sub_no)
            self.write(WakeEnded(subscription.sub_no, subscription.generation))

    def issue(self, subscription: Subscription) -> None:
        tails: list[Mark] = []
        for path in self.state.pending[subscription.sub_no]:
            stream = self.streams.by_path.get(path)
            if stream is not None and stream.life is Life.LIVE:
                tail = self.tails.get(stream.stream_id, stream.tail)
                tails.append(Mark(path, stream.stream_id, tail))
            if len(tails) == STREAMS_MAX:
                break
        if not tails:
            return
        self.issued.add(subscription.sub_no)
        generation = subscription.generation + 1
        next_ms = self.now_ms
        if not subscription.is_webhook:
            next_ms += announce_delay_ms(subscription.config.lease_ttl_ms, 0)
        self.write(
            WakeIssued(
                subscription.sub_no,
                generation,
                subscription.is_webhook,
                self.now_ms,
                next_ms,
                tuple(tails),
            )
        )
        self.announce(subscription, generation, tails[0].path)

    def announce_again(self, subscription: Subscription) -> None:
        if subscription.phase is Phase.WAKING and subscription.sub_no not in self.issued:
            path = next(iter(self.state.pending[subscription.sub_no]), None)
            if path is not None:
                self.announce(subscription, subscription.generation, path)

    def announce(self, subscription: Subscription, generation: int, path: str) -> None:
        """Write the wake to the wake stream, if there is one that can take it."""
        wake_path = subscription.config.wake_stream
        stream = self.streams.by_path.get(wake_path) if wake_path is not None else None
        if (
            stream is None
            or stream.life is not Life.LIVE
            or stream.is_closed
            or stream.is_expired(self.now_ms)
            or not media.is_json(stream.content_type)
        ):
            return
        tail = self.tails.get(stream.stream_id, stream.tail)
        time_ms = max(self.now_ms, tail.time_ms)
        self.tails[stream.stream_id] = Position(time_ms, tail.index + 1)
        wake = WakeEvent("wake", subscription.sub_id, path, generation, self.now_ms)
        self.write(Appended(stream.stream_id, tail.index, 1, time_ms), msgspec.json.encode(wake))
        self.append(stream)
