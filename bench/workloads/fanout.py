"""W4: one writer and many live readers; and what a reader that stalls does to the others."""

from __future__ import annotations

from bench.figures import Sample, percentile
from bench.load.fanout import Audience, Delivered
from bench.load.window import Pace
from bench.peers.server import Server
from bench.workloads.run import MIB, Run

ONE_AT_A_TIME = 1
IN_FLIGHT = 16
STALLED_SIZE = 1024
WITHOUT_STALLED = ("node-file", "redis-always", "redis-everysec")
"""Redis sends nothing that was not asked for, so nobody can stall it; Node's files are too slow."""


async def w4(run: Run) -> None:
    """Measure each audience with one event at a time and with 16 in flight."""
    with run.fleet() as fleet:
        for size in run.plan.audiences:
            for turn, name in run.turns(fleet):
                if size > fleet.servers[name].audience_max:
                    continue
                with run.measuring(fleet, name, "W4") as server:
                    await _audience(run, server, turn, size)
        stalled = 100 if 100 in run.plan.audiences else run.plan.audiences[-1]
        for turn, name in run.turns(fleet):
            if name in WITHOUT_STALLED:
                continue
            with run.measuring(fleet, name, "W4") as server:
                for is_stalled in (False, True):
                    await _stalled(run, server, turn, stalled, is_stalled=is_stalled)


async def _audience(run: Run, server: Server, turn: int, size: int) -> None:
    stream = f"fan-{len(run.samples)}"
    server.dialect.create(stream)
    audience = Audience(server.dialect, stream, size)
    try:
        await audience.gather()
        for in_flight in (ONE_AT_A_TIME, IN_FLIGHT):
            done = await audience.measure(in_flight, 100, _pace(run, server), server.pid)
            values = _values(done) | {"RSS MiB": server.rss_bytes / MIB}
            case = f"{size} subscribers, {in_flight} in flight"
            run.add(Sample("W4", case, server.name, turn, values, done.span.generator_share))
    finally:
        audience.leave()
    server.dialect.drop(stream)


async def _stalled(run: Run, server: Server, turn: int, size: int, *, is_stalled: bool) -> None:
    stream = f"stall-{len(run.samples)}"
    server.dialect.create(stream)
    audience = Audience(server.dialect, stream, size)
    try:
        await audience.gather(stalled=is_stalled)
        done = await audience.measure(IN_FLIGHT, STALLED_SIZE, _pace(run, server), server.pid)
        values = _values(done) | {"RSS MiB": server.rss_bytes / MIB}
    finally:
        audience.leave()
    server.dialect.drop(stream)
    case = f"{size} subscribers, {IN_FLIGHT} in flight, 1 KiB"
    case += ", and 1 that stopped reading" if is_stalled else ""
    run.add(Sample("W4", case, server.name, turn, values, done.span.generator_share))


def _pace(run: Run, server: Server) -> Pace:
    warm_s, run_s = run.plan.pace
    return Pace(warm_s, run_s * server.fanout_patience)


def _values(done: Delivered) -> dict[str, float]:
    return {
        "deliveries/s": done.deliveries / done.span.seconds,
        "p50 ms": percentile(done.latencies, 0.5) * 1000,
        "p99 ms": percentile(done.latencies, 0.99) * 1000,
        "CPU us/delivery": done.span.server_us / max(1, done.deliveries),
    }
