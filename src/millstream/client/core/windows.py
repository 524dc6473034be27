"""The stamped batches of one epoch, in order, and what is known about each.

A server stores the batches of an epoch without gaps. So if a sequence is stored, all before it
are; and if one certainly is not and never will be, none behind it is or will be.
"""

from __future__ import annotations

import msgspec

from millstream.client.core.batches import Batch


class Judged(msgspec.Struct, frozen=True):
    """What became of the batches of an epoch in which nothing is sent any more."""

    stored: list[Batch]
    uncertain: list[Batch]
    unsent: list[Batch]


class Window:
    """Stamped batches that are not answered for good. Each keeps its bytes and its sequence."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.next_seq = 0
        self.stored_seq = -1
        self.flying_count = 0

    def stamp(self, batch: Batch) -> None:
        """Give the batch the next sequence, which it keeps as long as it may have been sent."""
        batch.seq = self.next_seq
        self.next_seq += 1
        self.batches.append(batch)

    def launch(self, batch: Batch) -> None:
        """Note that a try goes out, and what was known to be stored at that time."""
        batch.tries += 1
        batch.is_flying = True
        batch.floor_seq = self.stored_seq + 1
        batch.waits_for_seq = -1
        self.flying_count += 1

    def land(self, batch: Batch) -> None:
        """Note that the try is over."""
        batch.is_flying = False
        self.flying_count -= 1

    def store(self, seq: int) -> None:
        """Note that the server has this sequence, hence all before it."""
        self.stored_seq = max(self.stored_seq, seq)

    def sendable(self) -> Batch | None:
        """Return the first batch that is not under way and does not wait for an earlier one."""
        for batch in self.batches:
            if not batch.is_flying and batch.waits_for_seq <= self.stored_seq:
                return batch
        return None

    def take_unsent_tail(self) -> list[Batch]:
        """Take back the stamps at the end that were certainly never used; return those batches."""
        kept = len(self.batches)
        while kept and not (self.batches[kept - 1].is_flying or self.batches[kept - 1].is_lost):
            kept -= 1
        return self._cut(kept)

    def take_from_refused(self) -> list[Batch] | None:
        """Take back all stamps from the first refused batch on, or None if that is not safe.

        A lost try behind the refused one may still arrive. Were its sequence in use for something
        else by then, the server would store the one and take the other for a repeat.
        """
        first = next(k for k, batch in enumerate(self.batches) if batch.refused is not None)
        if any(batch.is_lost for batch in self.batches[first:]):
            return None
        return self._cut(first)

    def leave(self) -> Judged:
        """End the epoch: nothing is under way, and nothing will be sent in it any more."""
        judged = Judged([], [], [])
        for batch in self.batches:
            if batch.seq <= self.stored_seq:
                judged.stored.append(batch)
            elif batch.is_lost and not judged.unsent:
                judged.uncertain.append(batch)
            else:
                judged.unsent.append(batch)
        for batch in judged.unsent:
            batch.unstamp()
        self.batches = []
        self.next_seq = 0
        self.stored_seq = -1
        return judged

    def _cut(self, kept: int) -> list[Batch]:
        taken = self.batches[kept:]
        del self.batches[kept:]
        for batch in taken:
            self.next_seq = min(self.next_seq, batch.seq)
            batch.unstamp()
        return taken
