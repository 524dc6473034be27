"""Time for the engine: Unix milliseconds that never step.

The wall clock is read once, at the start; from then on the machine's boot clock counts, which
goes on through suspends and ignores whoever sets the date. A stepped wall clock therefore neither
expires nor prolongs a lease or a TTL (ADR-0004).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now_ms(self) -> int:
        """Return the present time in Unix milliseconds; never less than it said before."""
        ...


class SteadyClock:
    """The wall clock of the start plus the boot clock since."""

    __slots__ = ("_offset_ns",)

    def __init__(self) -> None:
        """Anchor the boot clock to the wall clock as it is now."""
        wall_ns = time.time_ns()  # noqa: TID251 - the one place that reads the wall clock
        self._offset_ns = wall_ns - time.clock_gettime_ns(time.CLOCK_BOOTTIME)

    def now_ms(self) -> int:
        """Return the present time in Unix milliseconds."""
        return (time.clock_gettime_ns(time.CLOCK_BOOTTIME) + self._offset_ns) // 1_000_000
