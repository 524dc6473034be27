"""The one state machine: ``handle`` decides and applies, ``apply`` replays.

Everything that changes goes through here, in one order, with time handed in. The engine writes
what ``handle`` drafts before it lets anybody see it; recovery feeds the same events to ``apply``
and arrives at the same state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

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
from millstream.core.streams import apply as apply_stream
from millstream.core.streams import decide
from millstream.core.streams.commands import (
    Append,
    AppendRecords,
    CreateStream,
    DeleteStream,
    ExpireStream,
    GrantEpoch,
    StreamCommand,
    TouchStream,
)
from millstream.core.streams.create import create
from millstream.core.streams.decide import Draft
from millstream.core.streams.records import append_records
from millstream.core.streams.state import Streams
from millstream.core.subscriptions import apply as apply_subscription
from millstream.core.subscriptions import decide as decide_subscription
from millstream.core.subscriptions.commands import SubscriptionCommand
from millstream.core.subscriptions.state import Subscriptions

if TYPE_CHECKING:
    from collections.abc import Iterable

Command = StreamCommand | SubscriptionCommand
_OtherCommand = (
    CreateStream
    | AppendRecords
    | GrantEpoch
    | DeleteStream
    | ExpireStream
    | TouchStream
    | SubscriptionCommand
)


class Bounds(msgspec.Struct, frozen=True):
    """How much state the machine takes on."""

    streams_max: int = 1_000_000
    producers_max: int = 100_000


class Machine:
    """Streams and subscriptions under one order of commands."""

    __slots__ = ("bounds", "streams", "subscriptions")

    def __init__(
        self,
        bounds: Bounds,
        streams: Streams | None = None,
        subscriptions: Subscriptions | None = None,
    ) -> None:
        """Start from nothing, or from the state of a snapshot."""
        self.bounds = bounds
        self.streams = streams if streams is not None else Streams.empty()
        self.subscriptions = subscriptions if subscriptions is not None else Subscriptions.empty()

    def handle(self, command: Command, now_ms: int) -> Draft:
        """Decide ``command``, apply what follows from it, and return it to be written.

        The state is then ahead of the disk: until the draft is durable nothing of it may be
        shown to anybody.
        """
        if isinstance(command, Append):
            draft = decide.append(self.streams, command, now_ms, self.bounds.producers_max)
        else:
            draft = self._decide(command, now_ms)
        events = draft.events
        if not events:
            return draft
        if len(events) == 1:
            self.apply(events[0], len(draft.data[0]))
        else:
            self._apply_all(events, draft.data)
        if not self.subscriptions.by_no:
            return draft
        follow_up = decide_subscription.react(self.subscriptions, self.streams, events, now_ms)
        if follow_up is None:
            return draft
        self._apply_all(follow_up.events, follow_up.data)
        return Draft(draft.events + follow_up.events, draft.data + follow_up.data, draft.answer)

    def apply(self, event: Event, size: int) -> None:
        """Apply one event from the log; ``size`` is the length of its data."""
        if isinstance(event, Appended):
            apply_stream.appended(self.streams, event, size)
            return
        match event:
            case StreamCreated():
                apply_stream.created(self.streams, event)
            case StreamClosed():
                apply_stream.closed(self.streams, event)
            case ProducerMoved():
                apply_stream.producer_moved(self.streams, event)
            case DeadlineMoved():
                apply_stream.deadline_moved(self.streams, event)
            case StreamHidden():
                apply_stream.hidden(self.streams, event)
            case StreamRemoved():
                apply_stream.removed(self.streams, event)
            case VersionRaised():
                apply_stream.version_raised(self.streams, event)
            case _:
                apply_subscription.apply(self.subscriptions, self.streams, event)

    def settle(self, now_ms: int) -> None:
        """Call once after a replay: volatile deadlines are set from the durable ones."""
        apply_stream.settle(self.streams)
        apply_subscription.settle(self.subscriptions, self.streams, now_ms)

    def _decide(self, command: _OtherCommand, now_ms: int) -> Draft:
        match command:
            case CreateStream():
                return create(self.streams, command, now_ms, self.bounds.streams_max)
            case AppendRecords():
                bounds = self.bounds
                return append_records(
                    self.streams, command, now_ms, bounds.streams_max, bounds.producers_max
                )
            case GrantEpoch(path, producer_id):
                producers_max = self.bounds.producers_max
                return decide.grant(self.streams, path, producer_id, now_ms, producers_max)
            case DeleteStream(path):
                return decide.delete(self.streams, path, now_ms)
            case ExpireStream(stream_id):
                return decide.expire(self.streams, stream_id, now_ms)
            case TouchStream(stream_id, at_ms):
                return decide.touch(self.streams, stream_id, at_ms or now_ms)
            case _:
                return decide_subscription.decide(self.subscriptions, self.streams, command, now_ms)

    def _apply_all(self, events: Iterable[Event], data: Iterable[bytes]) -> None:
        for event, part in zip(events, data, strict=True):
            self.apply(event, len(part))
