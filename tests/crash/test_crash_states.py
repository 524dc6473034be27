"""Every kind of power loss at every operation of a life of the whole engine (D2, D5, P1)."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

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
    # A state that was fine before an answer need not be fine behind it.
    seen: dict[int, int] = {}
    failures: list[Exception] = []
    total = operations(seed)

    def look(operation: Operation) -> None:
        if failures:
            return
        share = max(2, 2 * (wanted - len(seen)) // max(1, total - operation.number))
        for state in disk.crash_states(share, operation.number):
            mark = state.fingerprint()
            if seen.get(mark) == bench.answers:
                continue
            seen[mark] = bench.answers
            try:
                judge.check(state)
            except Exception as error:  # noqa: BLE001 - kept, and raised at the end
                # Raised here, it would look like a failing disk to the engine under test.
                error.add_note(f"seed {seed}, power lost after {operation}")
                failures.append(error)
                return

    disk.watch = look
    asyncio.run(bench.live(STEPS))
    if failures:
        raise failures[0]
    return len(seen), total


def fail_one(kind: str, seed: int, nth: int) -> int:
    """Let the ``nth`` operation of a kind fail, as Linux does it; check what is left of the life.

    A sync that fails drops what it was to make stable, and a write leaves half of it behind.
    """
    disk = MemoryDisk()
    disk.fail(kind, nth)
    bench = Bench(disk, seed)
    judge = Judge(bench)
    with contextlib.suppress(OSError):
        asyncio.run(bench.live(STEPS // 2))
    states = [disk.kill(), *disk.crash_states(4, nth)]
    for state in states:
        try:
            judge.check(state)
        except Exception as error:
            error.add_note(f"seed {seed}, {kind} {nth} failed")
            raise
    return len(states)


@pytest.mark.parametrize("kind", ["sync", "write", "sync_dir", "rename", "create", "allocate"])
def test_no_failed_operation_takes_an_answer_back(kind: str) -> None:
    disk = MemoryDisk()
    asyncio.run(Bench(disk, 1).live(STEPS // 2))
    total = sum(operation.kind == kind for operation in disk.operations)
    count = sum(fail_one(kind, 1, nth) for nth in range(1, total + 1))
    print(f"{count} states after {total} failures")
    assert count >= total > 4


def test_a_life_has_everything_in_it() -> None:
    disk = MemoryDisk()
    asyncio.run(Bench(disk, 1).live(STEPS))
    renamed = [operation.path for operation in disk.operations if operation.kind == "rename"]
    assert sum(path.endswith(".log") for path in renamed) >= 4, "rolls"
    assert sum(path.endswith(".snap") for path in renamed) >= 2, "snapshots"


def test_no_power_loss_takes_an_answer_back(crash_states: int) -> None:
    count, seed = 0, 0
    while count < crash_states:
        seed += 1
        states, total = explore(seed, min(crash_states - count, 700))
        count += states
        print(f"seed {seed}: {states} states of {total} operations")
    assert count >= crash_states
