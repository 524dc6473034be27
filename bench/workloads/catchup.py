"""W3: readers that start at the beginning of a large stream."""

from __future__ import annotations

import time
from typing import Final

from bench.figures import Sample
from bench.load import catchup
from bench.load.catchup import Wanted
from bench.peers.server import Server
from bench.workloads.run import MIB, QUIET_S, Run, childless, fill

SIZE: Final = 1024
STREAM: Final = "history"
SHORT: Final = "history-short"
LEFT_OUT: Final = ("redis-everysec", "nats-always")
"""Reading does not depend on how appends are synced."""

WHOLE: Final = ("node-file", "node-memory")
"""Servers that build each answer whole in memory."""


async def w3(run: Run) -> None:
    """Read the whole stream with 1 and with 16 readers."""
    long, short = (n // SIZE // 1000 * 1000 for n in _sizes(run))
    with run.fleet(*LEFT_OUT) as fleet:
        for name in fleet.servers:
            with run.measuring(fleet, name, "W3 filling") as server:
                for stream, count in ((STREAM, long), (SHORT, short)):
                    server.dialect.create(stream)
                    await fill(server, stream, SIZE, count)
                # A snapshot that was begun by the filling is no part of reading.
                await childless(server.pid, time.monotonic() + QUIET_S)
        for readers in (1, 16):
            for turn, name in run.turns(fleet):
                is_short = readers > 1 and name in WHOLE
                stream, count = (SHORT, short) if is_short else (STREAM, long)
                # Sixteen times the stream would take seconds a turn; its rate does not need that.
                limit_s = run.plan.catchup_s if readers > 1 and not is_short else None
                wanted = Wanted(stream, count, limit_s)
                with run.measuring(fleet, name, "W3") as server:
                    values, share = await _read(server, wanted, readers)
                    note = f"reads {count * SIZE / MIB:.0f} MiB" if is_short else ""
                    plural = "reader" if readers == 1 else "readers"
                    case = f"{round(long * SIZE / MIB)} MiB, {readers} {plural}"
                    run.add(Sample("W3", case, name, turn, values, share, note))


def _sizes(run: Run) -> tuple[int, int]:
    least = 1000 * SIZE
    return max(least, run.plan.catchup_bytes), max(least, run.plan.catchup_short_bytes)


async def _read(server: Server, wanted: Wanted, readers: int) -> tuple[dict[str, float], float]:
    before = server.rss_bytes
    done = await catchup.run(server.dialect, wanted, readers, server.pid)
    after = server.rss_bytes
    megabytes = done.messages * SIZE / 1e6
    values = {
        "MB/s": megabytes / done.span.seconds,
        "CPU ms/MB": done.span.server_us / 1000 / megabytes,
        "RSS MiB": after / MIB,
        "RSS growth MiB": max(0, after - before) / MIB,
    }
    return values, done.span.generator_share
