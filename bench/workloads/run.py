"""What every workload shares: the plan, the root for data, and the samples collected so far."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import repeat
from pathlib import Path

from bench.figures import OURS, PEERS, Sample, percentile
from bench.load import appends
from bench.load.appends import Appended
from bench.load.dialect import BadReply
from bench.load.payload import message
from bench.load.window import Pace
from bench.peers.fleet import Fleet
from bench.peers.server import Server
from bench.plan import Plan
from bench.procfs import children

MIB = 1 << 20
QUIET_S = 60.0
"""How long to wait for a server to have done what it does in the background."""
_POLL_S = 0.02


class Run:
    """One run of the bench."""

    def __init__(self, plan: Plan, root: Path, peers: Sequence[str]) -> None:
        """Compare ours with `peers`; data goes under `root`."""
        self.plan = plan
        self.peers = tuple(peers)
        self.samples: list[Sample] = []
        self.facts: dict[str, float] = {}
        self.failures: list[str] = []
        self.spent: dict[tuple[str, str], float] = {}
        """Seconds by part of the run and server: where the time of a run goes."""
        self._root = root
        self._fleets = 0

    def fleet(self, *without: str) -> Fleet:
        """Return fresh servers, none started yet: ours and the peers that take part."""
        self._fleets += 1
        names = [OURS, *(peer for peer in PEERS if peer in self.peers and peer not in without)]
        return Fleet(self._root / f"fleet-{self._fleets}", names)

    def add(self, sample: Sample) -> None:
        """Keep a sample and say what it is, so that a long run can be followed."""
        self.samples.append(sample)
        shown = "  ".join(f"{key} {value:,.5g}" for key, value in sample.values.items())
        head = f"{sample.workload} {sample.case} #{sample.turn + 1} {sample.server:<14}"
        print(f"{head} {shown}  generator {sample.generator_share:.2f}", file=sys.stderr)

    @contextlib.contextmanager
    def measuring(self, fleet: Fleet, name: str, what: str) -> Iterator[Server]:
        """Wake one server for the length of a block.

        A peer that fails is told and left out of this measurement; ours must not fail.
        """
        try:
            with self.timing(what, name), fleet.awake(name) as server:
                yield server
        except (BadReply, OSError, RuntimeError) as error:
            if name == OURS:
                raise
            self.fail(f"{what}: {name} failed: {error!s:.200}")

    def fail(self, text: str) -> None:
        """Tell, once, what could not be measured as it should have been; the report repeats it."""
        if text not in self.failures:
            self.failures.append(text)
            print(text, file=sys.stderr)

    @contextlib.contextmanager
    def timing(self, part: str, name: str) -> Iterator[None]:
        """Count the time of a block for a part of the run and a server."""
        began = time.perf_counter()
        try:
            yield
        finally:
            seconds = time.perf_counter() - began
            self.spent[part, name] = self.spent.get((part, name), 0.0) + seconds

    def turns(self, fleet: Fleet) -> Iterator[tuple[int, str]]:
        """Yield each turn with each server: all in turn 0, then all in turn 1, and so on."""
        for turn in range(self.plan.repeats):
            for name in fleet.order(turn):
                yield turn, name


def append_values(done: Appended) -> dict[str, float]:
    """Return rate, latencies and cost of a stretch of appends."""
    messages = max(1, done.messages)
    return {
        "messages/s": done.messages / done.span.seconds,
        "p50 ms": percentile(done.latencies, 0.5) * 1000,
        "p99 ms": percentile(done.latencies, 0.99) * 1000,
        "CPU us/message": done.span.server_us / messages,
    }


async def fill(server: Server, stream: str, size: int, count: int, batch: int = 1000) -> None:
    """Append `count` messages (a multiple of `batch`) in batches, on up to four connections."""
    dialect = server.dialect
    batches = count // batch
    width = min(4, batches)
    lots = [batches // width + (n < batches % width) for n in range(width)]
    sequences = [repeat(dialect.append(stream, [message(size)] * batch), lot) for lot in lots]
    await appends.work_off(dialect, dialect.appended, sequences, server.pid)


async def steady_appends(pace: Pace, server: Server, stream: str) -> Appended:
    """Measure W1's middle case, 100 B on 64 connections, on a stream that exists."""
    width = 64
    requests = [server.dialect.append(stream, (message(100),)) for _ in range(width)]
    return await appends.run(server.dialect, requests, pace, server.pid)


async def childless(pid: int, deadline: float) -> bool:
    """Wait until a process has no children; tell whether that came true in time."""
    # Nobody tells us when the child of another process ends.
    while children(pid):
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_POLL_S)
    return True
