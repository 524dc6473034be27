"""What can be asked of subscriptions, and what comes back."""

from __future__ import annotations

import enum

import msgspec

from millstream.core.offsets import Position
from millstream.core.subscriptions.events import SubscriptionConfig


class CreateSubscription(msgspec.Struct, frozen=True):
    """Make a subscription, or confirm that just such a one is there.

    ``base_url`` is where its creator reached the server; it does not count for the comparison.
    """

    sub_id: str
    config: SubscriptionConfig
    base_url: str = ""


class GetSubscription(msgspec.Struct, frozen=True):
    """Tell all about a subscription."""

    sub_id: str


class DeleteSubscription(msgspec.Struct, frozen=True):
    """Remove a subscription; whatever is in flight for it is fenced."""

    sub_id: str


class LinkStreams(msgspec.Struct, frozen=True):
    """Add explicit links, each at its stream's present tail."""

    sub_id: str
    paths: tuple[str, ...]


class UnlinkStream(msgspec.Struct, frozen=True):
    """Remove an explicit link; a glob link to the same stream stays."""

    sub_id: str
    path: str


class Grant(msgspec.Struct, frozen=True):
    """What a token proves: a claim or a callback for one wake of one subscription."""

    kind: str
    sub_id: str
    sub_no: int
    generation: int
    wake_id: str


class Ack(msgspec.Struct, frozen=True):
    """One stream is processed up to here."""

    path: str
    position: Position


class ClaimWake(msgspec.Struct, frozen=True):
    """A worker wants to hold the wake."""

    sub_id: str
    worker: str


class AckWake(msgspec.Struct, frozen=True):
    """The holder moves cursors, shows that it lives, and may be done.

    ``grant`` is what its token proves, ``wake_id`` and ``generation`` what it says itself: both
    must name the wake of this moment.
    """

    sub_id: str
    grant: Grant
    wake_id: str
    generation: int
    acks: tuple[Ack, ...] = ()
    is_done: bool = False


class ReleaseWake(msgspec.Struct, frozen=True):
    """The holder gives the wake back."""

    sub_id: str
    grant: Grant
    wake_id: str
    generation: int


class ExpireLease(msgspec.Struct, frozen=True):
    """A lease may have run out: end it if it has."""

    sub_no: int
    generation: int


class AnnounceWake(msgspec.Struct, frozen=True):
    """A pull-wake may have stayed unclaimed: announce it again if it has."""

    sub_no: int
    generation: int


class Outcome(enum.IntEnum):
    """How a webhook delivery ended."""

    DONE = 0
    ACCEPTED = 1
    FAILED = 2


class WebhookOutcome(msgspec.Struct, frozen=True):
    """A delivery attempt ended. ``jitter`` is a random number from 0 up to 1, for the retry."""

    sub_no: int
    generation: int
    attempts: int
    outcome: Outcome
    jitter: float = 0.0


class GetDelivery(msgspec.Struct, frozen=True):
    """Tell what to send for a webhook's wake, if that wake still waits for its delivery."""

    sub_no: int
    generation: int


class ListWakes(msgspec.Struct, frozen=True):
    """Tell every wake that has a deadline, to set alarms after a restart."""


SubscriptionCommand = (
    CreateSubscription
    | GetSubscription
    | DeleteSubscription
    | LinkStreams
    | UnlinkStream
    | ClaimWake
    | AckWake
    | ReleaseWake
    | ExpireLease
    | AnnounceWake
    | WebhookOutcome
    | GetDelivery
    | ListWakes
)


class LinkFacts(msgspec.Struct, frozen=True):
    """One linked stream, as answers show it."""

    path: str
    is_explicit: bool
    acked: Position
    tail: Position

    @property
    def has_pending(self) -> bool:
        """True when the stream holds messages that were not acked."""
        return self.tail.index > self.acked.index


class SubscriptionFacts(msgspec.Struct, frozen=True):
    """A subscription as it is; ``is_new`` tells whether this command made it."""

    sub_no: int
    sub_id: str
    config: SubscriptionConfig
    created_ms: int
    is_failing: bool
    links: tuple[LinkFacts, ...]
    is_new: bool = False


class Claimed(msgspec.Struct, frozen=True):
    """The worker holds the wake."""

    sub_no: int
    sub_id: str
    generation: int
    wake_id: str
    lease_ttl_ms: int
    links: tuple[LinkFacts, ...]


class Acked(msgspec.Struct, frozen=True):
    """The acks are stored; ``is_next_wake`` tells that another wake follows at once."""

    is_next_wake: bool


class Delivery(msgspec.Struct, frozen=True):
    """What a webhook is to be told, to which URL, and when."""

    sub_no: int
    sub_id: str
    generation: int
    wake_id: str
    attempts: int
    next_attempt_ms: int
    url: str
    base_url: str
    links: tuple[LinkFacts, ...]


class WakeFacts(msgspec.Struct, frozen=True):
    """A wake and its deadlines; 0 for one it does not have."""

    sub_no: int
    generation: int
    is_webhook: bool
    lease_until_ms: int
    next_attempt_ms: int


class Wakes(msgspec.Struct, frozen=True):
    """All wakes that have a deadline."""

    wakes: tuple[WakeFacts, ...]
