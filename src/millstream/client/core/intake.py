"""What a producer takes from its caller: within the buffer's bounds, and nothing it cannot send."""

from __future__ import annotations

from millstream.client.core.batches import MESSAGE_OVERHEAD_BYTES, Batch, Gatherer
from millstream.client.core.outcomes import Outcomes
from millstream.client.errors import BadMessage, ClientError, MessageTooLarge
from millstream.client.producing_options import ProducerOptions


class Intake:
    """Takes encoded messages into the batch that is filling."""

    def __init__(self, gatherer: Gatherer, outcomes: Outcomes, options: ProducerOptions) -> None:
        self._gatherer = gatherer
        self._outcomes = outcomes
        self._buffered_bytes_max = options.max_buffered_bytes
        self._message_bytes_max = options.message_bytes_max

    @property
    def filling(self) -> Batch | None:
        """The batch that takes the next message, unless that begins a new one."""
        return self._gatherer.filling

    def has_room(self, payload: bytes, ahead_bytes: int = 0) -> bool:
        """Tell whether `append` may be called: an empty buffer takes any message.

        ``ahead_bytes`` is what others are about to append before.
        """
        used = self._outcomes.buffered_bytes + ahead_bytes
        if used + len(payload) + MESSAGE_OVERHEAD_BYTES <= self._buffered_bytes_max:
            return True
        return not used or len(payload) > self._message_bytes_max

    def append(self, payload: bytes, now: float) -> Batch:
        """Take a message and return its batch, in which it is the last. There must be room.

        A message that cannot be sent fails alone: see `reject`.
        """
        if not payload:
            return self.reject(BadMessage("an empty message cannot be stored"))
        if len(payload) > self._message_bytes_max:
            limit = self._message_bytes_max
            return self.reject(MessageTooLarge(f"the message is larger than {limit} bytes"))
        self._outcomes.buffered_bytes += len(payload) + MESSAGE_OVERHEAD_BYTES
        return self._gatherer.add(payload, now)

    def append_last(self, payload: bytes | None, now: float) -> Batch:
        """Take what closes the stream, with a message or without: a batch of its own."""
        self._gatherer.seal()
        batch = self._gatherer.new(now)
        batch.closes = True
        if payload is not None:
            batch.add(payload)
            self._outcomes.buffered_bytes += batch.cost_bytes
        self._gatherer.queue.append(batch)
        return batch

    def reject(self, error: ClientError) -> Batch:
        """Return the settled batch of a message that fails alone and has no place in the order."""
        batch = Batch(self._gatherer.number, 0.0)
        batch.count = 1
        self._outcomes.settle(batch, error)
        return batch

    def seal(self) -> int:
        """Let everything go without lingering; return the number of the newest batch."""
        self._gatherer.seal()
        return self._gatherer.number
