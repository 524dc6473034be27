"""What can happen to a subscription, as it is written to the log (see core/events.py).

Events that may concern many streams carry them all, so that a pattern over a million streams is
one event and not a million.
"""

from __future__ import annotations

import msgspec

from millstream.core.offsets import Position


class SubscriptionConfig(msgspec.Struct, frozen=True, array_like=True):
    """What the client asked for, normalised; a repeated PUT must ask for exactly the same."""

    kind: str
    pattern: str | None
    streams: tuple[str, ...]
    webhook_url: str | None
    wake_stream: str | None
    lease_ttl_ms: int
    description: str | None


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """A position in one incarnation of the stream at a path; ``stream_id`` 0 is no stream yet."""

    path: str
    stream_id: int
    position: Position


class SubscriptionCreated(msgspec.Struct, frozen=True, array_like=True, tag=32):
    """A subscription exists; ``sub_no`` is its incarnation and is never used again.

    ``base_url`` is where its creator reached the server: callbacks are sent there.
    """

    sub_no: int
    sub_id: str
    config: SubscriptionConfig
    created_ms: int
    base_url: str = ""


class SubscriptionDeleted(msgspec.Struct, frozen=True, array_like=True, tag=33):
    """The subscription is gone, with its links, cursors and leases."""

    sub_no: int


class LinksAdded(msgspec.Struct, frozen=True, array_like=True, tag=34):
    """Stream paths belong to the subscription, each processed up to its mark.

    A path that is linked already to the same incarnation keeps its cursor and gains the other
    kind of link; one that is linked to an earlier incarnation starts again at the mark.
    """

    sub_no: int
    is_explicit: bool
    marks: tuple[Mark, ...]


class LinksRemoved(msgspec.Struct, frozen=True, array_like=True, tag=35):
    """Explicit or glob links are gone; links of the other kind may remain."""

    sub_no: int
    is_explicit: bool
    paths: tuple[str, ...]


class WakeIssued(msgspec.Struct, frozen=True, array_like=True, tag=36):
    """A new wake generation began; ``tails`` is the snapshot of the pending streams it is for.

    ``next_attempt_ms`` is when a webhook is to be sent, or a pull-wake to be announced again if
    nobody has claimed it by then.
    """

    sub_no: int
    generation: int
    is_webhook: bool
    time_ms: int
    next_attempt_ms: int
    tails: tuple[Mark, ...]


class WakeClaimed(msgspec.Struct, frozen=True, array_like=True, tag=37):
    """A worker holds the wake until ``lease_until_ms``; ``tails`` is what it was shown.

    For a webhook the holder is its receiver, which took the delivery; the snapshot stays then
    the one that was sent, and ``tails`` is empty.
    """

    sub_no: int
    generation: int
    worker: str
    lease_until_ms: int
    tails: tuple[Mark, ...]


class LeaseExtended(msgspec.Struct, frozen=True, array_like=True, tag=38):
    """The holder showed life; its lease now lasts until ``lease_until_ms``."""

    sub_no: int
    generation: int
    lease_until_ms: int


class AcksMoved(msgspec.Struct, frozen=True, array_like=True, tag=39):
    """Streams are processed up to their marks, for ever."""

    sub_no: int
    marks: tuple[Mark, ...]


class WakeEnded(msgspec.Struct, frozen=True, array_like=True, tag=40):
    """Nobody holds this generation any more: done, released, expired, or nothing left to do."""

    sub_no: int
    generation: int


class RetryScheduled(msgspec.Struct, frozen=True, array_like=True, tag=41):
    """The same wake is tried again at ``next_attempt_ms``.

    A webhook delivery failed, or a pull-wake was announced again without being claimed.
    """

    sub_no: int
    generation: int
    is_webhook: bool
    attempts: int
    next_attempt_ms: int
