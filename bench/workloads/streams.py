"""W5: very many streams: make each and append to it, then memory, restart and cost at rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from statistics import median
from typing import Final

from bench.figures import Sample
from bench.load import appends
from bench.load.dialect import Request
from bench.load.payload import message
from bench.peers.server import Server
from bench.workloads.growth import compare_cost
from bench.workloads.run import Run

CONNECTIONS: Final = 64
NARROW: Final = {"node-file": 16}
"""It keeps 100 files open, and refuses appends when 64 connections open streams at once."""
SLOW: Final = ("node-file", "node-memory", "nats-always", "nats-default")
RESTARTS: Final = 3


async def w5(run: Run) -> None:
    """Add an equal share of the streams in every turn; at the end look at the whole."""
    made: dict[str, int] = {}
    with run.fleet() as fleet:
        at_rest = {name: server.rss_bytes for name, server in fleet.servers.items()}
        for turn, name in run.turns(fleet):
            share = run.plan.streams // run.plan.repeats
            with run.measuring(fleet, name, "W5") as server:
                sample = await _open(run, server, turn, share * turn, share)
                made[name] = made.get(name, 0) + round(sample.values["streams"])
                run.add(sample)
        for name, server in fleet.servers.items():
            if name not in made:
                continue
            grown = max(0, server.rss_bytes - at_rest[name])
            values = {"bytes/stream": grown / made[name]}
            note = f"holds {made[name]:,}" if name in SLOW else ""
            run.add(Sample("W5", _case(run) + ", at rest", name, 0, values, note=note))
        await _after(run, fleet.servers)


async def _after(run: Run, servers: dict[str, Server]) -> None:
    ours = servers["millstream"]
    await compare_cost(run, ours, f"streams-{ours.name}", f"append cost at {_case(run)}")
    for name, server in servers.items():
        if name in SLOW:
            continue
        times = []
        for _ in range(RESTARTS if name == ours.name else 1):
            server.stop()
            times.append(server.start())
        server.pause()
        values = {"restart s": median(times)}
        run.add(Sample("W5", _case(run) + ", restart", name, 0, values))


def _case(run: Run) -> str:
    return f"{run.plan.streams // run.plan.repeats * run.plan.repeats:,} streams"


async def _open(run: Run, server: Server, turn: int, start: int, count: int) -> Sample:
    body = message(100)
    width = min(NARROW.get(server.name, CONNECTIONS), count)

    def sequence(number: int) -> Iterator[Request]:
        streams = range(start + number, start + count, width)
        return chain.from_iterable(
            server.dialect.opening(f"many-{n}", body, number) for n in streams
        )

    is_slow = server.name in SLOW
    done = await appends.work_off(
        server.dialect,
        server.dialect.answered,
        [sequence(number) for number in range(width)],
        server.pid,
        run.plan.streams_slow_s if is_slow else None,
    )
    made = max(1, done.messages)
    values = {
        "streams": made,
        "streams/s": made / done.span.seconds,
        "CPU us/stream": done.span.server_us / made,
    }
    note = f"{width} connections, for {run.plan.streams_slow_s:g} s a turn" if is_slow else ""
    case = "create and append, 64 connections"
    return Sample("W5", case, server.name, turn, values, done.span.generator_share, note)
