"""The blocking producer: the asynchronous one, driven through the portal.

Going to the loop's thread and back for every message would cost more than the message. So `append`
encodes on the caller's thread and leaves the bytes in an inbox, which the loop empties in one go;
every other call goes through the loop behind that.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from types import TracebackType
from typing import Any, Self, Unpack

from millstream.client.aio.delivery import Delivery as AsyncDelivery
from millstream.client.aio.producer import Producer as AsyncProducer
from millstream.client.aio.stream import ProducerFields
from millstream.client.aio.stream import Stream as AsyncStream
from millstream.client.core.batches import MESSAGE_OVERHEAD_BYTES, Delivered, Outcome
from millstream.client.core.results import Closed
from millstream.client.errors import BadMessage, BufferFull, ClientError, Timeout
from millstream.client.sync.portal import Portal


class Delivery:
    """The report of one message; ask for it any number of times, or never."""

    __slots__ = ("_delivery", "_portal")

    def __init__(self, portal: Portal, delivery: AsyncDelivery | None = None) -> None:
        self._portal = portal
        self._delivery = delivery

    @property
    def outcome(self) -> Outcome | None:
        """The report or the error if it is known already, else None."""
        return None if self._delivery is None else self._delivery.outcome

    def result(self, timeout_s: float | None = None) -> Delivered:
        """Wait for the report and return it, or raise the message's error.

        Raises Timeout if it does not come in time; the message is delivered or not all the same.
        """

        async def waited() -> Delivered:
            # The loop has emptied the inbox before it came here.
            assert self._delivery is not None
            try:
                async with asyncio.timeout(timeout_s):
                    return await self._delivery
            except Timeout:
                raise
            except TimeoutError:
                raise Timeout("the report did not come in time", is_uncertain=True) from None

        return self._portal.run(waited())


class Inbox:
    """Encoded messages on their way from threads to the loop, in the order of their appends."""

    def __init__(self, portal: Portal, producer: AsyncProducer) -> None:
        self._portal = portal
        self._producer = producer
        self._lock = threading.Lock()
        self._waiting: deque[tuple[bytes | BadMessage, Delivery]] = deque()
        self._waiting_bytes = 0
        self._is_called = False

    def put(self, message: Any) -> Delivery | None:
        """Leave a message for the loop, or return None if there is no room for it.

        Raises what `Producer.append` raises.
        """
        payload = self._producer._encoded(message)  # noqa: SLF001 - the other half of one class
        delivery = Delivery(self._portal)
        with self._lock:
            if not self._producer._has_room(payload, self._waiting_bytes):  # noqa: SLF001
                return None
            self._waiting.append((payload, delivery))
            self._waiting_bytes += _cost(payload)
            is_called, self._is_called = self._is_called, True
        if not is_called:
            self._portal.submit(self._empty())
        return delivery

    async def _empty(self) -> None:
        """Hand everything to the producer; runs on the loop."""
        with self._lock:
            self._is_called = False
        while self._waiting:
            with self._lock:
                payload, delivery = self._waiting.popleft()
                self._waiting_bytes -= _cost(payload)
            # The other halves of this class and of the producer, on their own thread.
            delivery._delivery = self._producer._admitted(payload)  # noqa: SLF001


def _cost(payload: bytes | BadMessage) -> int:
    return 0 if isinstance(payload, BadMessage) else len(payload) + MESSAGE_OVERHEAD_BYTES


class Producer:
    """Appends messages of one producer id to one stream; made by `Stream.producer`.

    It may be used by several threads. See the asynchronous `Producer` for what it promises.
    """

    def __init__(
        self,
        portal: Portal,
        stream: AsyncStream,
        producer_id: str,
        **options: Unpack[ProducerFields],
    ) -> None:
        self._portal = portal
        self._producer = stream.producer(producer_id, **options)
        self._inbox = Inbox(portal, self._producer)
        self._knows_type = False

    @property
    def epoch(self) -> int | None:
        """The present epoch; None until the server has granted one."""
        return self._producer.epoch

    @property
    def next_seq(self) -> int:
        """The sequence that the next new batch gets."""
        return self._producer.next_seq

    @property
    def pending_count(self) -> int:
        """Messages without a report: waiting, or under way."""
        return self._portal.call(lambda: self._producer.pending_count)

    @property
    def in_flight_count(self) -> int:
        """Batches under way: sent, and not yet answered."""
        return self._producer.in_flight_count

    @property
    def buffered_bytes(self) -> int:
        """What messages that wait or are under way take of ``max_buffered_bytes``."""
        return self._portal.call(lambda: self._producer.buffered_bytes)

    @property
    def last_offset(self) -> str | None:
        """The end of the newest batch that is stored, None before the first."""
        return self._producer.last_offset

    @property
    def error(self) -> ClientError | None:
        """Why the producer stopped by itself, None if it did not."""
        return self._producer.error

    def __enter__(self) -> Self:
        self._portal.run(self._producer.__aenter__())
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._portal.run(self._producer.__aexit__(exc_type, exc, traceback))

    def append(self, message: Any) -> Delivery:
        """Take a message and return at once. Raises BufferFull if there is no room."""
        delivery = self._inbox.put(message)
        if delivery is None:
            raise BufferFull("the producer's buffer is full")
        return delivery

    def send(self, message: Any) -> Delivery:
        """As `append`, but wait for room. It returns when the message is taken."""
        if not self._knows_type:
            self._portal.run(self._producer._learn_type())  # noqa: SLF001 - as in the inbox
            self._knows_type = True
        delivery = self._inbox.put(message)
        if delivery is None:
            return Delivery(self._portal, self._portal.run(self._producer.send(message)))
        return delivery

    def flush(self) -> None:
        """Return when everything appended before is delivered; raises the first new failure."""
        self._portal.run(self._producer.flush())

    def close(self, message: Any = None) -> Closed:
        """Flush, then close the stream for everybody, in one step with a last message."""
        return self._portal.run(self._producer.close(message))

    def detach(self) -> None:
        """Flush and stop; the stream stays open. Safe to repeat, and after `close`."""
        self._portal.run(self._producer.detach())

    def restart(self) -> None:
        """Flush, and go on in the next epoch at sequence 0; this fences all that is older."""
        self._portal.run(self._producer.restart())
