"""W6: very many idle live readers: what each costs in memory, and what they do to W1."""

from __future__ import annotations

from statistics import median
from typing import Final

from bench.figures import Sample
from bench.load.fanout import Audience
from bench.peers.server import Server
from bench.workloads.run import Run, append_values, steady_appends

LEFT_OUT: Final = ("redis-everysec", "nats-default")
"""An idle connection does not depend on how appends are synced."""

IDLE: Final = "idle"
BUSY: Final = "busy"


async def w6(run: Run) -> None:
    """Measure W1 without and with idle readers on another stream, one server after the other."""
    with run.fleet(*LEFT_OUT) as fleet:
        for name in fleet.servers:
            with run.measuring(fleet, name, "W6") as server:
                await _one(run, server)


async def _one(run: Run, server: Server) -> None:
    for stream in (IDLE, BUSY):
        server.dialect.create(stream)
    size = min(run.plan.idle, server.idle_max)
    without = [await _appends(run, server) for _ in range(run.plan.repeats)]
    before = server.rss_bytes
    audience = Audience(server.dialect, IDLE, size)
    try:
        await audience.gather()
        each = (server.rss_bytes - before) / size / 1000
        beside: list[dict[str, float]] = []
        shares: list[float] = []
        for _ in range(run.plan.repeats):
            values, share = await _appends(run, server)
            beside.append(values)
            shares.append(share)
    finally:
        audience.leave()
    usual = median(values["messages/s"] for values, _ in without)
    case = f"{run.plan.idle:,} idle subscribers"
    note = f"{size:,} subscribers" if size < run.plan.idle else ""
    for turn, (values, share) in enumerate(zip(beside, shares, strict=True)):
        found = values | {
            "W1 kept": values["messages/s"] / usual if usual else 0.0,
            "KB/connection": max(0.0, each),
        }
        run.add(Sample("W6", case, server.name, turn, found, share, note))


async def _appends(run: Run, server: Server) -> tuple[dict[str, float], float]:
    done = await steady_appends(run.plan.pace, server, BUSY)
    return append_values(done), done.span.generator_share
