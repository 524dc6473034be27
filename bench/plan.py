"""How much of each workload a run does."""

from __future__ import annotations

import msgspec

from bench.load.window import Pace

MIB = 1 << 20


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a run. The defaults are those of `make bench`."""

    repeats: int = 5
    pace: Pace = Pace(0.1, 0.4)
    appends: tuple[tuple[int, int], ...] = (
        (100, 1),
        (100, 64),
        (100, 256),
        (1024, 1),
        (1024, 64),
        (1024, 256),
    )
    """W1: message bytes and connections."""
    batches: tuple[tuple[int, int, int], ...] = (
        (100, 100, 16),
        (1000, 100, 4),
        (100, 1024, 16),
        (1000, 1024, 4),
    )
    """W2: messages of a batch, message bytes, connections."""
    catchup_bytes: int = 256 * MIB
    catchup_short_bytes: int = 4 * MIB
    """W3: what 16 readers read of a server that builds each answer whole in its memory."""
    catchup_s: float = 1.5
    """W3: how long 16 readers of the long stream are measured."""
    audiences: tuple[int, ...] = (1, 100, 1000)
    streams: int = 100_000
    streams_slow_s: float = 0.5
    """W5: how long each case of the servers is measured that would need minutes for all streams."""
    idle: int = 10_000
    growth_messages: int = 10_000_000
    growth_pace: Pace = Pace(0.1, 0.8)
    """Longer than the others: CPU time is counted in steps of 10 ms."""


QUICK = Plan(
    repeats=3,
    pace=Pace(0.1, 0.3),
    appends=((100, 1), (100, 64), (100, 256), (1024, 64)),
    batches=((100, 100, 16), (1000, 100, 4), (1000, 1024, 4)),
    catchup_bytes=64 * MIB,
    catchup_short_bytes=2 * MIB,
    audiences=(1, 100, 1000),
    catchup_s=0.7,
    streams=20_004,
    streams_slow_s=0.3,
    idle=2_000,
    growth_messages=1_000_000,
    growth_pace=Pace(0.1, 0.5),
)
"""What `make bench-quick` does."""

TINY = Plan(
    repeats=1,
    pace=Pace(0.02, 0.05),
    appends=((100, 2),),
    batches=((10, 100, 2),),
    catchup_bytes=MIB,
    catchup_short_bytes=MIB // 4,
    audiences=(3,),
    catchup_s=0.1,
    streams=30,
    streams_slow_s=0.1,
    idle=20,
    growth_messages=2_000,
    growth_pace=Pace(0.02, 0.05),
)
"""Enough to see that everything still runs; the figures mean nothing."""
