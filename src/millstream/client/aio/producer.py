"""The producer: appends that return at once, batches that are stored exactly once and in order."""

from __future__ import annotations

import asyncio
import copy
import enum
from types import TracebackType
from typing import Any, Final, Protocol, Self

from millstream.client.aio.calls import Caller
from millstream.client.aio.delivery import Delivery, settled, unwrapped
from millstream.client.aio.pump import Pump
from millstream.client.core.backoff import may_have_happened
from millstream.client.core.batches import Batch, Delivered
from millstream.client.core.encoding import encode
from millstream.client.core.producing import Session
from millstream.client.core.results import Closed, Head
from millstream.client.core.tries import Sender
from millstream.client.errors import (
    BadMessage,
    BadOption,
    BufferFull,
    ClientError,
    FencedError,
    ProducerClosed,
)
from millstream.client.producing_options import AutoClaim, ProducerOptions
from millstream.core import media

# How many messages a loop of `send` may add before others on the event loop get a turn.
YIELD_MESSAGES: Final = 128


class Target(Protocol):
    """What a producer needs of a stream handle."""

    url: str
    calls: Caller

    @property
    def content_type(self) -> str | None:
        """The stream's content type, if known."""

    async def head(self) -> Head:
        """Ask the server, which tells the content type."""


class State(enum.Enum):
    """What a producer may still do."""

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"
    DETACHED = "detached"


class Producer:
    """Appends messages of one producer id to one stream; made by `Stream.producer`.

    As a context manager, leaving the block normally is `detach`: everything is delivered, or the
    first failure is raised. Leaving it by an exception or by cancellation stops at once: what was
    not sent fails with ProducerClosed, what was under way fails so too and is uncertain.

    ``error`` of a producer that stopped by itself says why; `append` raises it from then on.
    """

    def __init__(self, stream: Target, producer_id: str, options: ProducerOptions) -> None:
        if not producer_id or not producer_id.isprintable():
            raise BadOption("producer_id must be text without control characters")
        self._stream = stream
        self._sender = Sender(stream.url, producer_id)
        self._is_guessing = isinstance(options.epoch, AutoClaim)
        self._session = Session(self._sender, options)
        self._state = State.OPEN
        self._pump = Pump(self._session, stream.calls, stream.url)
        self._sending = asyncio.Lock()
        self._ending = asyncio.Lock()
        self._last: tuple[Batch, bytes | None] | None = None
        self._closed: Closed | None = None

    @property
    def epoch(self) -> int | None:
        """The present epoch; None until the server has granted one."""
        return self._session.epoch

    @property
    def next_seq(self) -> int:
        """The sequence that the next new batch gets."""
        return self._session.next_seq

    @property
    def pending_count(self) -> int:
        """Messages without a report: waiting, or under way."""
        return sum(batch.count for batch in self._session.unsettled)

    @property
    def in_flight_count(self) -> int:
        """Batches under way: sent, and not yet answered."""
        return self._session.in_flight_count

    @property
    def buffered_bytes(self) -> int:
        """What messages that wait or are under way take of ``max_buffered_bytes``."""
        return self._session.outcomes.buffered_bytes

    @property
    def last_offset(self) -> str | None:
        """The end of the newest batch that is stored, None before the first."""
        return self._session.last_offset

    @property
    def error(self) -> ClientError | None:
        """Why the producer stopped by itself, None if it did not."""
        return self._session.error

    async def __aenter__(self) -> Self:
        # An epoch that is only our guess may have been the guess of an earlier life, too.
        if self._is_guessing and self._session.is_fresh:
            head = await self._stream.head()
            # Only a tail that cannot have anything of ours in it tells what is not ours.
            if self._session.is_fresh:
                self._session.start_offset = head.offset
        await self._learn_type()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None:
            await self.detach()
            return
        self._state = State.DETACHED
        await self._pump.halt("the block of the producer was left early")

    def append(self, message: Any) -> Delivery:
        """Take a message and return at once; the report is awaited or not, as you like.

        Raises BufferFull if there is no room, what stopped the producer, ProducerClosed after
        `close` or `detach`, and BadOption if the stream's content type is not known yet: enter
        the producer with ``async with``, or connect the stream before. A message that cannot be
        sent (BadMessage, MessageTooLarge) fails alone, and its report says so.
        """
        payload = self._encoded(message)
        if not self._has_room(payload):
            raise BufferFull("the producer's buffer is full", url=self._sender.url)
        return self._taken(payload)

    async def send(self, message: Any) -> Delivery:
        """As `append`, but wait for room. Those who wait are served in their order.

        It returns as soon as the message is taken; await the result for its report.
        """
        await self._learn_type()
        payload = self._encoded(message)
        if self._sending.locked() or not self._has_room(payload):
            async with self._sending:
                self._check_open()
                while not self._has_room(payload):
                    await self._pump.change()
                    self._check_open()
                delivery = self._taken(payload)
        else:
            delivery = self._taken(payload)
        if self._pump.is_kicked or delivery._index % YIELD_MESSAGES == 0:  # noqa: SLF001 - our own
            # A loop that only sends would never let a request go out.
            await asyncio.sleep(0)
        return delivery

    async def flush(self) -> None:
        """Return when everything appended before is delivered.

        Raises the first failure that no flush has raised yet, when all is settled.
        """
        number = self._session.intake.seal()
        waiting = self._session.unsettled
        if waiting:
            self._pump.kick()
        for batch in waiting:
            await settled(batch)
        error = self._session.outcomes.first_failure(number)
        if error is not None:
            raise copy.copy(error)

    async def close(self, message: Any = None) -> Closed:
        """Flush, then close the stream for everybody, in one step with a last message.

        Repeated, it returns the same result. If something was not delivered, that is raised and
        the stream stays open. If the close itself failed and may nevertheless have happened, only
        the same close can be tried again: another message is refused with ProducerClosed, as is
        a close after `detach`.
        """
        async with self._ending:
            if self._state is State.DETACHED:
                raise ProducerClosed("the producer is detached; the stream was left open")
            payload = await self._last_payload(message)
            if self._closed is not None:
                return self._closed
            self._state = State.CLOSING
            try:
                end = await self._stored_end(payload)
            except BaseException as error:
                self._reopen(error)
                raise
            self._state = State.CLOSED
            self._closed = Closed(offset=end.offset or self.last_offset or "")
            self._pump.disarm()
            return self._closed

    async def detach(self) -> None:
        """Flush and stop; the stream stays open. Safe to repeat, and after `close`.

        If something was not delivered, that is raised, and the producer is detached all the same.
        """
        async with self._ending:
            if self._state in {State.DETACHED, State.CLOSED}:
                return
            self._state = State.DETACHED
            try:
                await self.flush()
            finally:
                await self._pump.halt("the producer was detached")

    async def restart(self) -> None:
        """Flush, and go on in the next epoch at sequence 0; this fences all that is older.

        It also revives a producer that has stopped, unless it was fenced: another one is in
        charge then. If something was not delivered, that is raised and nothing has changed.
        """
        async with self._ending:
            self._check_usable()
            if isinstance(self.error, FencedError):
                raise copy.copy(self.error)
            await self.flush()
            while self._session.unsettled:
                await self.flush()
            self._session.restart()
            # What has expired may still be under way; the epoch ends when it is back.
            await self._pump.idle()
            self._pump.kick()

    def _encoded(self, message: Any) -> bytes | BadMessage:
        """Return the message's bytes, or why it cannot be sent. Changes nothing."""
        self._check_open()
        kind = self._sender.content_type or self._known_type()
        try:
            return encode(message, kind)
        except BadMessage as error:
            return error

    def _has_room(self, payload: bytes | BadMessage, ahead_bytes: int = 0) -> bool:
        if isinstance(payload, BadMessage):
            return True
        return self._session.intake.has_room(payload, ahead_bytes)

    def _admitted(self, payload: bytes | ClientError) -> Delivery:
        """Take what was encoded earlier; it fails if the producer has ended since."""
        try:
            self._check_open()
        except ClientError as error:
            payload = error
        return self._taken(payload)

    def _taken(self, payload: bytes | ClientError) -> Delivery:
        intake = self._session.intake
        if isinstance(payload, ClientError):
            return Delivery(intake.reject(payload), 0)
        batch = intake.append(payload, asyncio.get_running_loop().time())
        index = batch.count - 1
        if index == 0 or intake.filling is not batch:
            self._pump.kick()
        return Delivery(batch, index)

    def _known_type(self) -> str:
        kind = self._stream.content_type
        if kind is None:
            text = "the content type of the stream is not known: connect the stream first"
            raise BadOption(text, url=self._sender.url)
        self._sender.content_type = kind
        return kind

    async def _learn_type(self) -> None:
        if not self._sender.content_type:
            if self._stream.content_type is None:
                await self._stream.head()
            self._sender.content_type = self._stream.content_type or media.OCTETS

    async def _last_payload(self, message: Any) -> bytes | None:
        """Return the bytes of a final message; refuse one that differs from an earlier close."""
        payload = None
        if message is not None:
            await self._learn_type()
            payload = encode(message, self._sender.content_type)
            if not payload:
                raise BadMessage("an empty message cannot be stored", url=self._sender.url)
        is_other = self._last is not None and self._last[1] != payload
        if is_other and (self._closed is None or payload is not None):
            text = "the stream was closed, or may have been, with another last message"
            raise ProducerClosed(text, url=self._sender.url)
        return payload

    async def _stored_end(self, payload: bytes | None) -> Delivered:
        """Flush and close, or take up the close that was begun; return where it is stored."""
        former = self._last[0] if self._last is not None else None
        if former is not None and isinstance(former.outcome, Delivered):
            return former.outcome
        self._check_running()
        if former is None:
            await self.flush()
        batch = self._session.close(payload, asyncio.get_running_loop().time(), former)
        self._last = (batch, payload)
        self._pump.kick()
        await settled(batch)
        return unwrapped(batch.outcome)

    def _reopen(self, error: BaseException) -> None:
        """After a failed close, go on as before, unless the stream may be closed by it."""
        is_certain = isinstance(error, ClientError) and not may_have_happened(error)
        if self._last is None or is_certain:
            self._last = None
            self._state = State.OPEN

    def _check_open(self) -> None:
        self._check_usable()
        self._check_running()

    def _check_usable(self) -> None:
        if self._state is not State.OPEN:
            raise ProducerClosed(f"the producer is {self._state.value}", url=self._sender.url)

    def _check_running(self) -> None:
        if self._session.error is not None:
            raise copy.copy(self._session.error)
