"""W5: very many streams: make each with a message, then memory, restart and cost at rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final, NamedTuple

from bench.figures import OURS, Sample
from bench.load import appends
from bench.load.appends import Appended
from bench.load.dialect import BadReply, Request
from bench.load.payload import message
from bench.peers.server import Server
from bench.workloads.growth import compare_cost
from bench.workloads.run import Run

CONNECTIONS: Final = 64
NARROW: Final = {"node-file": 2}
"""It keeps 100 files open and closes one that is being written to when others are opened; the
append is then answered with 404. That happens soon on 64 connections, and now and then on 4."""
SLOW: Final = ("node-file", "node-memory", "nats-always", "nats-default")
RESTARTS: Final = 3
TWO_REQUESTS: Final = "create and append"
ONE_REQUEST: Final = "create with its first message"
CASES: Final = (TWO_REQUESTS, ONE_REQUEST)


class Lot(NamedTuple):
    """Streams that one server makes in one turn of one case: their names, and how wide."""

    case: str
    prefix: str
    numbers: range
    width: int


class Opened(NamedTuple):
    """What became of a lot, and on how many connections."""

    done: Appended
    width: int


async def w5(run: Run) -> None:
    """Add an equal share of the streams in every turn; at the end look at the whole."""
    made: dict[str, int] = {}
    widths: dict[str, int] = dict(NARROW)
    with run.fleet() as fleet:
        at_rest = {name: server.rss_bytes for name, server in fleet.servers.items()}
        for turn, name in run.turns(fleet):
            for case in CASES if turn % 2 == 0 else reversed(CASES):
                with run.measuring(fleet, name, "W5") as server:
                    if not requests(server, case, "none", 0):
                        continue
                    lot = _lot(run, turn, case, widths.get(name, CONNECTIONS))
                    opened = await _open(run, server, lot)
                    widths[name] = opened.width
                    made[name] = made.get(name, 0) + opened.done.messages
                    run.add(_sample(run, server, turn, case, opened))
        for name, server in fleet.servers.items():
            if name not in made:
                continue
            grown = max(0, server.rss_bytes - at_rest[name])
            values = {"bytes/stream": grown / made[name]}
            note = f"holds {made[name]:,}" if name in SLOW else ""
            run.add(Sample("W5", _total(run) + ", at rest", name, 0, values, note=note))
        await _after(run, fleet.servers)


async def _after(run: Run, servers: dict[str, Server]) -> None:
    ours = servers[OURS]
    await compare_cost(run, ours, f"streams-{ours.name}", f"append cost at {_total(run)}")
    for name, server in servers.items():
        if name in SLOW:
            continue
        times = []
        with run.timing("W5 restart", name):
            for _ in range(RESTARTS if name == OURS else 1):
                server.stop()
                times.append(server.start())
        server.pause()
        values = {"restart s": median(times)}
        run.add(Sample("W5", _total(run) + ", restart", name, 0, values))


def _share(run: Run) -> int:
    """Return how many streams one turn of one case makes."""
    return run.plan.streams // run.plan.repeats // len(CASES)


def _total(run: Run) -> str:
    return f"{_share(run) * run.plan.repeats * len(CASES):,} streams"


def _lot(run: Run, turn: int, case: str, width: int) -> Lot:
    share = _share(run)
    # Each case has names of its own, so that every request makes a stream that was not there.
    prefix = "many" if case == TWO_REQUESTS else "whole"
    return Lot(case, prefix, range(share * turn, share * (turn + 1)), min(width, share))


def requests(server: Server, case: str, stream: str, connection: int) -> Sequence[Request]:
    """Return what makes a stream with one message; nothing if the server cannot do it so."""
    if case == TWO_REQUESTS:
        return server.dialect.opening(stream, message(100), connection)
    whole = server.dialect.opening_whole(stream, message(100))
    return (whole,) if whole is not None else ()


async def _open(run: Run, server: Server, lot: Lot) -> Opened:
    """Make the streams of a lot; a peer that refuses is asked again on half the connections."""
    while True:
        try:
            return Opened(await _work_off(run, server, lot), lot.width)
        except BadReply as error:
            if server.name == OURS or lot.width == 1:
                raise
            run.fail(f"W5: {server.name} failed on {lot.width} connections: {error!s:.80}")
            lot = lot._replace(prefix=f"again-{lot.prefix}", width=lot.width // 2)


async def _work_off(run: Run, server: Server, lot: Lot) -> Appended:
    def sequence(connection: int) -> Iterator[Request]:
        for number in lot.numbers[connection :: lot.width]:
            yield from requests(server, lot.case, f"{lot.prefix}-{number}", connection)

    return await appends.work_off(
        server.dialect,
        server.dialect.answered,
        [sequence(connection) for connection in range(lot.width)],
        server.pid,
        run.plan.streams_slow_s if server.name in SLOW else None,
    )


def _sample(run: Run, server: Server, turn: int, case: str, opened: Opened) -> Sample:
    span, made = opened.done.span, max(1, opened.done.messages)
    values = {
        "streams": made,
        "streams/s": made / span.seconds,
        "CPU us/stream": span.server_us / made,
    }
    notes = []
    if opened.width < min(CONNECTIONS, _share(run)):
        notes.append(f"{opened.width} connections")
    if server.name in SLOW:
        notes.append(f"for {run.plan.streams_slow_s:g} s a turn")
    name = f"{case}, {CONNECTIONS} connections"
    note = ", ".join(notes)
    return Sample("W5", name, server.name, turn, values, span.generator_share, note)
