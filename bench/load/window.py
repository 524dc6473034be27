"""The stretch of time that is measured: what the server and the generator used in it."""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.procfs import cpu_us, process_us


class Pace(NamedTuple):
    """How long a load runs before it is measured, and how long it is measured."""

    warm_s: float
    run_s: float


class Instant(NamedTuple):
    """A moment: clocks of the wall, of all processes of the server, of its first one, and ours."""

    at: float
    server_us: int
    process_us: int
    own_s: float


class Span(NamedTuple):
    """What lies between two moments; `process_us` is `server_us` without child processes."""

    seconds: float
    server_us: int
    process_us: int
    generator_share: float


def instant(pid: int) -> Instant:
    """Read the clocks; `pid` is the server's first process."""
    return Instant(time.perf_counter(), cpu_us(pid), process_us(pid), time.process_time())


def span(start: Instant, end: Instant) -> Span:
    """Return what was used from `start` to `end`."""
    seconds = end.at - start.at
    share = (end.own_s - start.own_s) / seconds
    # The clocks cannot go back, unless the process itself is gone: then nothing is known.
    server_us = max(0, end.server_us - start.server_us)
    process_us = max(0, end.process_us - start.process_us)
    return Span(seconds, server_us, process_us, share)
