"""Cost does not grow: appends on a server that holds much, beside appends on a fresh one."""

from __future__ import annotations

from statistics import median

from bench.peers.fleet import OURS, Fleet
from bench.peers.server import Server
from bench.workloads.run import Run, fill, steady_appends

BIG = "big"


async def growth(run: Run) -> None:
    """Fill one stream with millions of messages, then compare appends to it with a fresh start."""
    with run.fleet(*run.peers) as fleet:
        server = fleet.servers[OURS]
        with fleet.awake(OURS):
            server.dialect.create(BIG)
            await fill(server, BIG, 100, run.plan.growth_messages)
        title = f"append cost at {run.plan.growth_messages:,} messages in the stream"
        await compare_cost(run, server, BIG, title)


async def compare_cost(run: Run, grown: Server, stream: str, title: str) -> None:
    """Note the CPU time of an append on `grown`, in units of that on a fresh server.

    Turns alternate between the two; the stream is made if it does not exist.
    """
    fresh_fleet: Fleet = run.fleet(*run.peers)
    with fresh_fleet:
        fresh = fresh_fleet.servers[OURS]
        for server in (fresh, grown):
            server.resume()
            server.dialect.create(stream)
            await steady_appends(run, server, stream)
            server.pause()
        ratios = []
        for turn in range(run.plan.repeats):
            costs = []
            for server in (fresh, grown) if turn % 2 == 0 else (grown, fresh):
                server.resume()
                done = await steady_appends(run, server, stream)
                server.pause()
                costs.append((server is grown, done.span.server_us / max(1, done.messages)))
            cost = dict(costs)
            ratios.append(cost[True] / cost[False] if cost[False] else 1.0)
            run.facts[f"{title}: us, grown, turn {turn + 1}"] = cost[True]
            run.facts[f"{title}: us, fresh, turn {turn + 1}"] = cost[False]
    run.facts[title] = median(ratios)
