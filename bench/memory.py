"""What streams, messages and producers cost in memory.

Runs the real state machine and the real read model, without disk and HTTP, and prints by how much
the process grew, per item. Usage: python bench/memory.py [--streams N] [--producers N]
"""

import argparse
import gc
import resource
from collections.abc import Iterable
from pathlib import Path

from millstream.core.machine import Bounds, Command, Machine
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Append, Body, CreateStream
from millstream.engine.extents import pack_place
from millstream.engine.views import Views

TEXT = "text/plain"
NOW_MS = 1_700_000_000_000
MESSAGE_BYTES = 100
PRODUCERS_PER_STREAM = 1000


class State:
    """A machine and the views of its readers, fed like the engine feeds them."""

    def __init__(self, hot_bytes_max: int) -> None:
        self.machine = Machine(Bounds(10_000_000, 10_000_000))
        self.views = Views(hot_bytes_max)
        self._frames = 0

    def run(self, commands: Iterable[Command], *, is_hot: bool = False) -> None:
        """Decide, apply and show every command."""
        for command in commands:
            draft = self.machine.handle(command, NOW_MS)
            self._frames += 1
            for event, data in zip(draft.events, draft.data, strict=True):
                place = pack_place(1, self._frames)
                self.views.apply(event, data if is_hot else len(data), place, 200)
        self.views.take_changed()


def resident_bytes() -> int:
    """Return how much memory the process has at present."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def measure(name: str, count: int, state: State, commands: Iterable[Command], **how: bool) -> None:
    """Run commands and print what each item of them left behind."""
    before = resident_bytes()
    state.run(commands, **how)
    each = (resident_bytes() - before) / count
    print(f"{name:<58} {count:>10,} {each:>8.0f} bytes each")


def path(number: int) -> str:
    """A path of 30 characters, as people use them."""
    return f"tenants/4711/orders/{number:010d}"


def producer_id(number: int) -> str:
    """An id of 36 characters, as long as a UUID."""
    return f"4b1a0c6e-0000-4000-8000-{number:012d}"


def appends(numbers: Iterable[int]) -> Iterable[Command]:
    """One message of its own bytes for each stream."""
    for number in numbers:
        yield Append(path(number), TEXT, Body(b"%0100d" % number, 1))


def batches(producers: int, seq: int) -> Iterable[Command]:
    """One batch of each producer; neighbours write to one stream, one after the other."""
    for number in range(producers):
        claim = Claim(producer_id(number), 0, seq)
        yield Append(path(number // PRODUCERS_PER_STREAM), TEXT, Body(b"x", 1), claim=claim)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--producers", type=int, default=1_000_000)
    asked = parser.parse_args()
    streams, producers = asked.streams, asked.producers
    state = State(hot_bytes_max=1 << 30)
    measure(
        "an empty stream",
        streams,
        state,
        (CreateStream(path=path(number), content_type=TEXT) for number in range(streams)),
    )
    measure("its first append, on disk only", streams, state, appends(range(streams)))
    again = [number for _ in range(10) for number in range(streams)]
    measure("one more append, on disk only", 10 * streams, state, appends(again))
    measure(
        f"one more append of {MESSAGE_BYTES} bytes, in memory too",
        streams,
        state,
        appends(range(streams)),
        is_hot=True,
    )
    measure(
        "the same in one busy stream",
        10 * streams,
        state,
        (Append(path(0), TEXT, Body(b"%0100d" % number, 1)) for number in range(10 * streams)),
        is_hot=True,
    )
    count = -(-producers // PRODUCERS_PER_STREAM)
    state = State(hot_bytes_max=1 << 30)
    state.run(CreateStream(path=path(number), content_type=TEXT) for number in range(count))
    measure(
        "a producer with one batch (its append included)", producers, state, batches(producers, 0)
    )
    measure("its second batch (likewise)", producers, state, batches(producers, 1))
    measure("its third (likewise)", producers, state, batches(producers, 2))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"{'the whole process at its peak':<58} {peak:>19,} bytes")


if __name__ == "__main__":
    main()
