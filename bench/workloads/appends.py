"""W1 and W2: single appends and batches, each acked before the connection sends the next."""

from __future__ import annotations

from bench.figures import Sample
from bench.load import appends
from bench.load.payload import message
from bench.peers.server import Server
from bench.workloads.run import MIB, Run, append_values

ONE_BY_ONE = ("nats-always",)
"""Syncs every message of a stream on its own: four connections' batches take it seconds, at the
rate of one's."""
ONE_STREAM_EACH = ("redis-always", "redis-everysec", "nats-always", "nats-default")


async def w1(run: Run) -> None:
    """Single appends of one size on some connections, all to one stream."""
    with run.fleet() as fleet:
        for size, connections in run.plan.appends:
            case = f"{size} B, {connections} connections"
            for turn, name in run.turns(fleet):
                with run.measuring(fleet, name, "W1") as server:
                    run.add(await _single(run, server, (case, turn), size, connections))
    # Node with files works off one stream's appends one by one: show it at its best, too.
    if {"node-file", "node-memory"} & set(run.peers):
        with run.fleet(*ONE_STREAM_EACH) as fleet:
            for turn, name in run.turns(fleet):
                with run.measuring(fleet, name, "W1") as server:
                    at = ("100 B, 64 connections, 64 streams", turn)
                    run.add(await _single(run, server, at, 100, 64, streams=64))


async def _single(
    run: Run, server: Server, at: tuple[str, int], size: int, connections: int, streams: int = 1
) -> Sample:
    case, turn = at
    names = [f"single-{len(run.samples)}-{n}" for n in range(streams)]
    for name in names:
        server.dialect.create(name)
    body = (message(size),)
    requests = [server.dialect.append(names[n % streams], body) for n in range(connections)]
    done = await appends.run(server.dialect, requests, run.plan.pace, server.pid)
    values = append_values(done) | {"RSS MiB": server.rss_bytes / MIB}
    for name in names:
        server.dialect.drop(name)
    return Sample("W1", case, server.name, turn, values, done.span.generator_share)


async def w2(run: Run) -> None:
    """Batches: one JSON array over HTTP, pipelined single appends elsewhere."""
    with run.fleet() as fleet:
        for batch, size, connections in run.plan.batches:
            case = f"{batch} x {size} B, {connections} connections"
            for turn, name in run.turns(fleet):
                width = max(1, connections // 4) if name in ONE_BY_ONE else connections
                with run.measuring(fleet, name, "W2") as server:
                    run.add(await _batches(run, server, (case, turn), (batch, size), width))


async def _batches(
    run: Run, server: Server, at: tuple[str, int], batch: tuple[int, int], connections: int
) -> Sample:
    (case, turn), (count, size) = at, batch
    stream = f"batch-{len(run.samples)}"
    server.dialect.create(stream)
    messages = [message(size)] * count
    requests = [server.dialect.append(stream, messages) for _ in range(connections)]
    done = await appends.run(server.dialect, requests, run.plan.pace, server.pid)
    values = append_values(done) | {
        "MB/s": done.messages * size / done.span.seconds / 1e6,
        "RSS MiB": server.rss_bytes / MIB,
    }
    server.dialect.drop(stream)
    plural = "connection" if connections == 1 else "connections"
    note = f"{connections} {plural}" if server.name in ONE_BY_ONE else ""
    return Sample("W2", case, server.name, turn, values, done.span.generator_share, note)
