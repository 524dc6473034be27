"""The stretch of time that is measured: what the server and the generator used in it."""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.procfs import cpu_us


class Pace(NamedTuple):
    """How long a load runs before it is measured, and how long it is measured."""

    warm_s: float
    run_s: float


class Instant(NamedTuple):
    """A moment: clocks of the wall, of the server's processes and of the generator."""

    at: float
    server_us: int
    own_s: float


class Span(NamedTuple):
    """What lies between two moments."""

    seconds: float
    server_us: int
    generator_share: float


def instant(pid: int) -> Instant:
    """Read the clocks; `pid` is the server's first process."""
    return Instant(time.perf_counter(), cpu_us(pid), time.process_time())


def span(start: Instant, end: Instant) -> Span:
    """Return what was used from `start` to `end`."""
    seconds = end.at - start.at
    share = (end.own_s - start.own_s) / seconds
    return Span(seconds, end.server_us - start.server_us, share)
