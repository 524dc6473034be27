"""The whole state as snapshot records, and back.

The first record is the head; then one record a stream (its state and the places of its messages);
then the subscriptions. What can be derived is not written.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

import msgspec

from millstream.core.events import StreamCreated
from millstream.core.machine import Machine
from millstream.core.streams.state import Stream, Streams
from millstream.core.subscriptions.state import Subscription, Subscriptions
from millstream.engine.tails import Tail
from millstream.engine.views import Views

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from millstream.core.machine import Bounds


class Head(msgspec.Struct, frozen=True, array_like=True, tag=1):
    """What is counted over all streams and subscriptions."""

    next_stream_id: int
    next_sub_no: int
    stream_count: int
    subscription_count: int


class StreamRecord(msgspec.Struct, frozen=True, array_like=True, tag=2):
    """One stream and where its messages lie."""

    stream: Stream
    extents: bytes


class SubscriptionRecord(msgspec.Struct, frozen=True, array_like=True, tag=3):
    """One subscription."""

    subscription: Subscription


Record = Head | StreamRecord | SubscriptionRecord


def _pack(value: object) -> object:
    if isinstance(value, array):
        return value.tobytes()
    message = f"{type(value)} does not belong into a snapshot"
    raise TypeError(message)


def _unpack(_kind: object, value: object) -> object:
    assert isinstance(value, bytes)
    return array("q", value)


_encoder = msgspec.msgpack.Encoder(enc_hook=_pack)
_decoder = msgspec.msgpack.Decoder(Record, dec_hook=_unpack)


def dump(machine: Machine, views: Views) -> Iterator[bytes]:
    """Yield the records of the state; nothing may change it meanwhile."""
    streams, subscriptions = machine.streams, machine.subscriptions
    subs = list(subscriptions.records())
    yield _encoder.encode(
        Head(streams.next_id, subscriptions.next_no, len(streams.by_id), len(subs))
    )
    for stream in streams.by_id.values():
        tail = views.by_id(stream.stream_id)
        assert tail is not None
        yield _encoder.encode(StreamRecord(stream, tail.extents.packed()))
    for subscription in subs:
        yield _encoder.encode(SubscriptionRecord(subscription))


def load(records: Iterable[bytes], bounds: Bounds, hot_bytes_max: int) -> tuple[Machine, Views]:
    """Rebuild the state that ``dump`` wrote. Raises ValueError when the records do not add up."""
    head: Head | None = None
    rows: list[StreamRecord] = []
    subs: list[Subscription] = []
    for raw in records:
        record = _decoder.decode(raw)
        match record:
            case Head():
                head = record
            case StreamRecord():
                rows.append(record)
            case SubscriptionRecord():
                subs.append(record.subscription)
    if head is None or (head.stream_count, head.subscription_count) != (len(rows), len(subs)):
        message = "the snapshot's records do not match its head"
        raise ValueError(message)
    streams = Streams.restore((row.stream for row in rows), head.next_stream_id)
    machine = Machine(bounds, streams, Subscriptions.restore(subs, head.next_sub_no))
    return machine, _views(rows, hot_bytes_max)


def _views(rows: list[StreamRecord], hot_bytes_max: int) -> Views:
    views = Views(hot_bytes_max)
    # A source is always older than its forks, so in order of ids it is there when needed.
    for row in sorted(rows, key=lambda row: row.stream.stream_id):
        stream = row.stream
        event = StreamCreated(
            stream.stream_id,
            stream.path,
            stream.content_type,
            stream.created_ms,
            stream.ttl_s,
            stream.expires_at_ms,
            stream.fork,
        )
        source = views.by_id(stream.fork.source_id) if stream.fork else None
        tail = Tail(event, source)
        tail.restore(stream, row.extents)
        views.restore(tail)
    return views
