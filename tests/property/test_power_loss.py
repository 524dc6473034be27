"""Every legal state after a power loss at every operation of a small life of a log.

A promise of the whole package rather than of one module: D2 and D5 of the invariants.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from millstream.storage.damage import DataDamaged
from millstream.storage.log import Log
from millstream.storage.recovery import Recovery
from millstream.storage.snapshots import Snapshots
from millstream.storage.verify import Severity, verify_structure
from millstream.testing.files_memory import Attempt, MemoryDisk, Operation
from tests.support.logs import DIRECTORY_ID, LOG, SNAPSHOTS, append, frame, mark, options, start

FILE_BYTES = 2048
STATES_PER_POINT = 30


def payload(lsn: int) -> bytes:
    return random.Random(lsn).randbytes(20 + lsn * 97 % 700)


class Life:
    """Writes batches, rolls, takes snapshots; knows what was answered for."""

    def __init__(self, disk: MemoryDisk) -> None:
        self.disk = disk
        self.lsn_given = 0
        self.lsn_acked = 0
        self.snapshot_acked = 0

    def batch(self, log: Log, count: int) -> None:
        frames = []
        for _ in range(count):
            self.lsn_given += 1
            frames.append(frame(self.lsn_given, payload(self.lsn_given), self.lsn_acked))
        append(log, *frames)
        self.lsn_acked = self.lsn_given

    def snapshot(self) -> None:
        mine = Snapshots(self.disk.files, SNAPSHOTS, DIRECTORY_ID, chunk_bytes=256)
        records = (b"%d" % lsn * 40 for lsn in range(1, self.lsn_acked + 1))
        mine.write(self.lsn_acked, records)
        self.snapshot_acked = self.lsn_acked
        mine.prune()

    def run(self) -> None:
        log = start(self.disk.files, file_bytes=FILE_BYTES).log
        for step, count in enumerate((1, 2, 1, 3, 1, 1, 4, 1, 2, 1, 1, 2)):
            self.batch(log, count)
            if step % 3 == 1:
                log.prepare_next()
            if step % 4 == 2:
                self.snapshot()
        self.lsn_given += 1
        append(log, mark(self.lsn_given))
        self.lsn_acked = self.lsn_given


def check(state: MemoryDisk, life: Life) -> None:
    """Start on what the power loss left, and compare with what was answered for."""
    findings = verify_structure(state.files, LOG, SNAPSHOTS)
    assert [f for f in findings if f.severity is Severity.DAMAGE] == []
    recovery = Recovery.open(state.files, LOG, options(FILE_BYTES))
    mine = Snapshots(state.files, SNAPSHOTS, DIRECTORY_ID)
    newest = mine.open_newest()
    assert mine.passed_over == ()
    assert (newest.lsn if newest else 0) >= life.snapshot_acked
    found = [
        (placed.frame.lsn, [bytes(data) for _, data in placed.parts()])
        for placed in recovery.frames(after=0, proven=mine.newest_lsn)
    ]
    assert [lsn for lsn, _ in found] == list(range(1, len(found) + 1))
    assert life.lsn_acked <= len(found) <= life.lsn_given
    for lsn, data in found:
        assert data in ([payload(lsn)], [])
    log = recovery.finish()
    append(log, frame(len(found) + 1, b"after the power came back", len(found)))
    again = start(next(state.crash_states(1)).files, file_bytes=FILE_BYTES)
    assert len(again.frames) == len(found) + 1


def test_no_power_loss_takes_what_was_answered_for() -> None:
    disk = MemoryDisk()
    life = Life(disk)
    count = 0

    def look(operation: Operation) -> None:
        nonlocal count
        for state in disk.crash_states(STATES_PER_POINT, operation.number):
            check(state, life)
            count += 1

    disk.watch = look
    life.run()
    assert count >= 1000, count


def test_no_second_power_loss_during_the_start_does_either() -> None:
    disk = MemoryDisk()
    life = Life(disk)
    torn: list[MemoryDisk] = []

    def keep(operation: Operation) -> None:
        if operation.kind == "write" and operation.path.startswith(LOG):
            torn.extend(list(disk.crash_states(6, operation.number))[2:])

    disk.watch = keep
    life.run()
    count = 0
    for first in torn:
        shadow = Life(first)
        recovery = Recovery.open(first.files, LOG, options(FILE_BYTES))
        # All that the first start replays is on stable storage already: none of it may go.
        shadow.lsn_acked = shadow.lsn_given = sum(1 for _ in recovery.frames())

        def look(operation: Operation, disk: MemoryDisk = first, shadow: Life = shadow) -> None:
            nonlocal count
            for state in disk.crash_states(4, operation.number):
                check(state, shadow)
                count += 1

        first.watch = look
        recovery.finish()
    assert count >= 100, count


def forget(disk: MemoryDisk, forgotten: str) -> None:
    """Turn every operation of one kind into nothing."""
    perform = disk.perform

    def lie(kind: str, path: str, size: int, act: Callable[[Attempt], None]) -> None:
        perform(kind, path, size, (lambda _attempt: None) if kind == forgotten else act)

    disk.perform = lie  # type: ignore[method-assign]


@pytest.mark.parametrize("forgotten", ["sync", "sync_dir"])
def test_a_log_that_does_not_sync_is_caught(forgotten: str) -> None:
    disk = MemoryDisk()
    forget(disk, forgotten)
    life = Life(disk)
    caught = 0

    def look(operation: Operation) -> None:
        nonlocal caught
        for state in disk.crash_states(8, operation.number):
            try:
                check(state, life)
            except (AssertionError, DataDamaged):
                caught += 1

    disk.watch = look
    life.run()
    assert caught
