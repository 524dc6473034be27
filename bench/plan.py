"""How much of each workload a run does."""

from __future__ import annotations

import msgspec

from bench.load.window import Pace

MIB = 1 << 20


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a run. The defaults are those of `make bench`."""

    repeats: int = 5
    pace: Pace = Pace(0.15, 0.6)
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
    catchup_short_bytes: int = 8 * MIB
    """W3: what 16 readers read of a server that builds each answer whole in its memory."""
    audiences: tuple[int, ...] = (1, 100, 1000)
    streams: int = 100_000
    streams_slow_s: float = 1.0
    """W5: how long the servers are measured that would need minutes for all streams."""
    idle: int = 10_000
    growth_messages: int = 10_000_000


QUICK = Plan(
    repeats=3,
    pace=Pace(0.1, 0.3),
    appends=((100, 1), (100, 64), (100, 256), (1024, 64)),
    batches=((100, 100, 16), (1000, 100, 4), (1000, 1024, 4)),
    catchup_bytes=64 * MIB,
    catchup_short_bytes=4 * MIB,
    audiences=(1, 100, 1000),
    streams=20_001,
    streams_slow_s=0.5,
    idle=2_000,
    growth_messages=1_000_000,
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
    streams=30,
    streams_slow_s=0.1,
    idle=20,
    growth_messages=2_000,
)
"""Enough to see that everything still runs; the figures mean nothing."""
