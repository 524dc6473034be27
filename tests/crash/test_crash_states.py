"""Every kind of power loss at every operation of a life of the whole engine (D2, D5, P1)."""

from __future__ import annotations

import asyncio

from millstream.testing.files_memory import MemoryDisk, Operation
from tests.support.bench import Bench
from tests.support.power_loss import Judge

STEPS = 60


def operations(seed: int) -> int:
    """Count the operations of the life that ``seed`` gives."""
    disk = MemoryDisk()
    asyncio.run(Bench(disk, seed).live(STEPS))
    return len(disk.operations)


def explore(seed: int, wanted: int) -> tuple[int, int]:
    """Check about ``wanted`` states of one life; return how many, and after how many operations."""
    disk = MemoryDisk()
    bench = Bench(disk, seed)
    judge = Judge(bench)
    seen: set[int] = set()
    total = operations(seed)

    def look(operation: Operation) -> None:
        share = max(2, 2 * (wanted - len(seen)) // max(1, total - operation.number))
        for state in disk.crash_states(share, operation.number):
            mark = state.fingerprint()
            if mark in seen:
                continue
            seen.add(mark)
            try:
                judge.check(state)
            except Exception as error:
                error.add_note(f"seed {seed}, power lost after {operation}")
                raise

    disk.watch = look
    asyncio.run(bench.live(STEPS))
    return len(seen), total


def test_no_power_loss_takes_an_answer_back(crash_states: int) -> None:
    count, seed = 0, 0
    while count < crash_states:
        seed += 1
        states, total = explore(seed, min(crash_states - count, 700))
        count += states
        print(f"seed {seed}: {states} states of {total} operations")
    assert count >= crash_states
