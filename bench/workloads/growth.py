"""Cost does not grow: appends on a server that holds much, beside appends on a fresh one."""

from __future__ import annotations

import time
from statistics import median
from typing import Final

from bench.peers.fleet import OURS, Fleet
from bench.peers.server import Server
from bench.procfs import cpu_us, process_us
from bench.workloads.run import QUIET_S, Run, childless, fill, steady_appends

BIG: Final = "big"


async def growth(run: Run) -> None:
    """Fill one stream with millions of messages, then compare appends to it with a fresh start."""
    with run.fleet(*run.peers) as fleet:
        server = fleet.servers[OURS]
        with run.timing("growth filling", OURS), fleet.awake(OURS):
            server.dialect.create(BIG)
            await fill(server, BIG, 100, run.plan.growth_messages)
        title = f"append cost at {run.plan.growth_messages:,} messages in the stream"
        await compare_cost(run, server, BIG, title)


async def compare_cost(run: Run, grown: Server, stream: str, title: str) -> None:
    """Note the CPU time of an append on `grown`, in units of that on a fresh server.

    Only the server's own process counts: snapshots are written by a child of low priority, and
    what they cost is noted apart. Turns alternate between the two servers, and begin when no
    snapshot is being written; the stream is made if it does not exist.
    """
    fresh_fleet: Fleet = run.fleet(*run.peers)
    with run.timing("growth", OURS), fresh_fleet:
        fresh = fresh_fleet.servers[OURS]
        deadline = time.monotonic() + QUIET_S
        for server in (fresh, grown):
            server.resume()
            server.dialect.create(stream)
            await _cost(run, server, stream, deadline)
            server.pause()
        ratios = []
        for turn in range(run.plan.repeats):
            cost: dict[Server, float] = {}
            for server in (fresh, grown) if turn % 2 == 0 else (grown, fresh):
                server.resume()
                cost[server] = await _cost(run, server, stream, deadline)
                server.pause()
            ratios.append(cost[grown] / cost[fresh] if cost[fresh] else 1.0)
            run.facts[f"{title}: us, grown, turn {turn + 1}"] = cost[grown]
            run.facts[f"{title}: us, fresh, turn {turn + 1}"] = cost[fresh]
    own_us = process_us(grown.pid)
    run.facts[title] = median(ratios)
    run.facts[f"{title}: CPU s of the grown server so far"] = own_us / 1e6
    run.facts[f"{title}: CPU s of its snapshots so far"] = (cpu_us(grown.pid) - own_us) / 1e6


async def _cost(run: Run, server: Server, stream: str, deadline: float) -> float:
    """Return the CPU time of an append in microseconds, measured when no snapshot is under way."""
    if not await childless(server.pid, deadline):
        run.fail(f"growth: a snapshot was still being written after {QUIET_S:g} s")
    done = await steady_appends(run.plan.growth_pace, server, stream)
    return done.span.process_us / max(1, done.messages)
