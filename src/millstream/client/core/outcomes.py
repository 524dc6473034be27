"""What became of a producer's batches, what they still occupy, and which failures are untold."""

from __future__ import annotations

from typing import Final

from millstream.client.core.batches import Batch, Outcome
from millstream.client.errors import ClientError

FAILURES_KEPT_MAX: Final = 100


class Outcomes:
    """Gives batches their outcome, once. ``settled`` collects those that the driver must wake."""

    def __init__(self) -> None:
        self.settled: list[Batch] = []
        self.buffered_bytes = 0
        self._failures: list[tuple[int, ClientError]] = []

    def settle(self, batch: Batch, outcome: Outcome) -> None:
        """Set the outcome, unless there is one: what was reported stays as it was reported."""
        if batch.outcome is not None:
            return
        batch.outcome = outcome
        self.settled.append(batch)
        # A failed close is reported by the close itself.
        if batch.closes or len(self._failures) >= FAILURES_KEPT_MAX:
            return
        if isinstance(outcome, ClientError):
            self._failures.append((batch.number, outcome))

    def discard(self, batch: Batch, outcome: Outcome) -> None:
        """Settle the batch and give up its bytes: it is not sent again."""
        self.settle(batch, outcome)
        self.buffered_bytes -= batch.cost_bytes
        batch.cost_bytes = 0
        batch.parts = []

    def first_failure(self, number: int) -> ClientError | None:
        """Return the first failure up to this batch number that was not returned before.

        All failures up to there count as returned.
        """
        known = [entry for entry in self._failures if entry[0] <= number]
        self._failures = [entry for entry in self._failures if entry[0] > number]
        return min(known, key=lambda entry: entry[0])[1] if known else None
