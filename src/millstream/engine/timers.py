"""Deadlines as commands: one heap for all of them, and one wake-up for the next.

A deadline that was moved is not taken out: when its old time comes, the command finds nothing
to do, or the owner puts it in again for the new time.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.core.machine import Command
    from millstream.engine.clock import Clock


class Timers:
    """Gives commands to the writer when their time has come."""

    def __init__(
        self,
        clock: Clock,
        submit: Callable[[Command], None],
        wake_in: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """``wake_in(seconds, callback)`` is the event loop's ``call_later``."""
        self._clock = clock
        self._submit = submit
        self._wake_in = wake_in
        self._heap: list[tuple[int, int, Command | Callable[[], None]]] = []
        self._count = 0
        self._next_ms = 0
        self._is_stopped = False

    def __len__(self) -> int:
        """Return how many deadlines are noted."""
        return len(self._heap)

    def at(self, deadline_ms: int, what: Command | Callable[[], None]) -> None:
        """Give ``what`` to the writer (or call it) once the clock shows ``deadline_ms``."""
        self._count += 1
        heapq.heappush(self._heap, (deadline_ms, self._count, what))
        self._arm()

    def stop(self) -> None:
        """Fire nothing any more."""
        self._is_stopped = True
        self._heap.clear()

    def fire(self) -> None:
        """Give out everything that is due."""
        self._next_ms = 0
        now_ms = self._clock.now_ms()
        while self._heap and self._heap[0][0] <= now_ms and not self._is_stopped:
            _, _, what = heapq.heappop(self._heap)
            if callable(what):
                what()
            else:
                self._submit(what)
        self._arm()

    def _arm(self) -> None:
        if not self._heap or self._is_stopped:
            return
        deadline_ms = self._heap[0][0]
        if self._next_ms and self._next_ms <= deadline_ms:
            return
        self._next_ms = deadline_ms
        delay_ms = max(deadline_ms - self._clock.now_ms(), 0)
        # A far deadline is looked at again in an hour: no timer outlives its reason by much.
        self._wake_in(min(delay_ms, 3_600_000) / 1000, self.fire)
