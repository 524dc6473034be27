"""Messages gathered into batches: what is sent, stamped, kept and settled as one."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import msgspec

from millstream.client.errors import ClientError
from millstream.client.producing_options import ProducerOptions

# What a waiting message costs beside its payload; without it, tiny messages would be unbounded.
MESSAGE_OVERHEAD_BYTES: Final = 64


class Delivered(msgspec.Struct, frozen=True):
    """Where a message is: in the batch that ends at ``offset``; reading from there gives the next.

    ``offset`` is None if the server stored the batch and does not tell where. ``is_duplicate``:
    the server had it already, because an answer was lost, or because another writer uses the same
    producer id and epoch.
    """

    offset: str | None
    is_duplicate: bool
    epoch: int
    seq: int


Outcome = Delivered | ClientError


class Batch:
    """Messages that share one request, one stamp and one outcome.

    ``number`` is its place in the order of appends. ``is_lost`` tells that a try went out and no
    answer came back: it may have been stored, and may even arrive later. ``refused`` is the
    server's word that it can never take these bytes. ``outcome`` is set once and stays.
    """

    __slots__ = (
        "born_s",
        "closes",
        "cost_bytes",
        "count",
        "floor_seq",
        "halves",
        "is_flying",
        "is_lost",
        "number",
        "outcome",
        "parts",
        "refused",
        "seq",
        "size_bytes",
        "tries",
        "waiter",
        "waits_for_seq",
    )

    def __init__(self, number: int, born_s: float) -> None:
        self.number = number
        self.born_s = born_s
        self.parts: list[bytes] = []
        self.count = 0
        self.size_bytes = 0
        self.cost_bytes = 0
        self.closes = False
        self.seq = -1
        self.tries = 0
        self.is_flying = False
        self.is_lost = False
        self.floor_seq = 0
        self.waits_for_seq = -1
        self.refused: ClientError | None = None
        self.halves: tuple[Batch, Batch] | None = None
        self.outcome: Outcome | None = None
        # Whatever the driver needs to wake those who wait for the outcome.
        self.waiter: Any = None

    def add(self, payload: bytes) -> None:
        """Put a message behind the others."""
        self.parts.append(payload)
        self.count += 1
        self.size_bytes += len(payload) + 1
        self.cost_bytes += len(payload) + MESSAGE_OVERHEAD_BYTES

    def unstamp(self) -> None:
        """Forget the stamp, as if it had never been tried. Only for what was never stored."""
        self.seq = -1
        self.is_lost = False
        self.waits_for_seq = -1

    def split(self) -> tuple[Batch, Batch]:
        """Move the messages into two new batches of the same age; this one only points there."""
        halves = (Batch(self.number, self.born_s), Batch(self.number, self.born_s))
        middle = self.count // 2
        for payload in self.parts[:middle]:
            halves[0].add(payload)
        for payload in self.parts[middle:]:
            halves[1].add(payload)
        self.halves = halves
        self.parts = []
        return halves

    def holder(self, index: int) -> tuple[Batch, int]:
        """Return the batch that holds this batch's message ``index`` now, and its index there."""
        batch = self
        while batch.halves is not None:
            first, second = batch.halves
            batch, index = (first, index) if index < first.count else (second, index - first.count)
        return batch, index


class Gatherer:
    """The unstamped batches, oldest first: a queue of full ones and one that is still filling."""

    def __init__(self, options: ProducerOptions) -> None:
        self._bytes_max = options.max_batch_bytes
        self._messages_max = options.max_batch_messages
        self._linger_s = options.linger_ms / 1000
        self._filling: Batch | None = None
        self.queue: deque[Batch] = deque()
        self.number = 0

    @property
    def filling(self) -> Batch | None:
        """The batch that takes the next message."""
        return self._filling

    @property
    def due_s(self) -> float | None:
        """When the filling batch has waited long enough."""
        return None if self._filling is None else self._filling.born_s + self._linger_s

    def add(self, payload: bytes, now: float) -> Batch:
        """Put a message behind all others and return its batch; it is the last one in there."""
        batch = self._filling
        if batch is not None and batch.size_bytes + len(payload) >= self._bytes_max:
            self.seal()
            batch = None
        if batch is None:
            batch = self._filling = self.new(now)
        batch.add(payload)
        if batch.count >= self._messages_max or batch.size_bytes >= self._bytes_max:
            self.seal()
        return batch

    def new(self, now: float) -> Batch:
        """Return an empty batch with the next number; the caller queues it."""
        self.number += 1
        return Batch(self.number, now)

    def seal(self) -> None:
        """Let the filling batch go, however small it is."""
        if self._filling is not None:
            self.queue.append(self._filling)
            self._filling = None

    def take(self, now: float) -> Batch | None:
        """Return the oldest batch that may go now, which is then no longer kept here."""
        if not self.queue:
            due_s = self.due_s
            if due_s is None or due_s > now:
                return None
            self.seal()
        return self.queue.popleft()

    def give_back(self, batches: list[Batch]) -> None:
        """Put batches, in their order, before all others."""
        self.queue.extendleft(reversed(batches))
