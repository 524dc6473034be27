"""Events: everything that can happen, as it is written to the log.

The tag numbers and the order of fields are the on-disk format (docs/format.md): never reuse a
tag, never reorder; new fields go to the end with a default. The bytes of appended messages stand
beside the event (its ``data``), not inside it, so that they reach the disk uncopied.
"""

from __future__ import annotations

import msgspec

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


class Fork(msgspec.Struct, frozen=True, array_like=True):
    """Where a fork left its source: ``base_*`` is the divergence point within the source."""

    source_id: int
    source_path: str
    anchor_index: int
    sub_offset: int
    base_index: int
    base_time_ms: int
    moment_ms: int = 0
    """The time that the client named in place of a message; 0 when it named none."""


class StreamCreated(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """A path got a stream; ``stream_id`` is its incarnation and is never used again."""

    stream_id: int
    path: str
    content_type: str
    created_ms: int
    ttl_s: int | None
    expires_at_ms: int | None
    fork: Fork | None


class Appended(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """``count`` messages were added behind message ``index``; their bytes are the event's data.

    In a JSON stream the data are the values joined by commas. ``lengths`` packs the length of
    each message (u32, little endian) when there is more than one.
    """

    stream_id: int
    index: int
    count: int
    time_ms: int
    lengths: bytes = b""
    producer_id: str | None = None
    producer_epoch: int = 0
    producer_seq: int = 0
    stream_seq: str | None = None


class StreamClosed(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """The stream takes no more messages; who closed it is kept to recognise its retry."""

    stream_id: int
    time_ms: int
    producer_id: str | None = None
    producer_epoch: int = 0
    producer_seq: int = 0


class ProducerMoved(msgspec.Struct, frozen=True, array_like=True, tag=4):
    """A producer used a sequence without adding a message (a close without a body)."""

    stream_id: int
    producer_id: str
    producer_epoch: int
    producer_seq: int


class DeadlineMoved(msgspec.Struct, frozen=True, array_like=True, tag=5):
    """Reads slid a stream's expiry; after a restart it lives at least until ``deadline_ms``."""

    stream_id: int
    deadline_ms: int


class StreamHidden(msgspec.Struct, frozen=True, array_like=True, tag=6):
    """A stream with forks was deleted or expired: its bytes stay, its path answers no more.

    A deleted path stays taken (410) until the last fork goes; an expired one is free again.
    """

    stream_id: int
    is_expired: bool


class StreamRemoved(msgspec.Struct, frozen=True, array_like=True, tag=7):
    """A stream and its messages are gone."""

    stream_id: int


class VersionRaised(msgspec.Struct, frozen=True, array_like=True, tag=8):
    """Who writes records under a version needs at least this one from here on."""

    stream_id: int
    version: int


Event = (
    StreamCreated
    | Appended
    | StreamClosed
    | ProducerMoved
    | DeadlineMoved
    | StreamHidden
    | StreamRemoved
    | VersionRaised
    | SubscriptionCreated
    | SubscriptionDeleted
    | LinksAdded
    | LinksRemoved
    | WakeIssued
    | WakeClaimed
    | LeaseExtended
    | AcksMoved
    | WakeEnded
    | RetryScheduled
)
