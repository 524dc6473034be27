"""The offline check of meaning: whole directories pass, each kind of nonsense is named."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from millstream.core.events import (
    Appended,
    Event,
    Fork,
    ProducerMoved,
    StreamClosed,
    StreamCreated,
)
from millstream.engine.audit import audit_directory
from millstream.engine.snapshotting import dump
from millstream.format.events import encode_event
from millstream.format.frame import KIND_EVENTS, encode_frame
from millstream.storage.verify import Finding, Severity
from millstream.testing.files_memory import MemoryDisk
from tests.support.bench import DIRECTORY, Bench, recover

JSON = "application/json"


def damage(disk: MemoryDisk) -> list[Finding]:
    findings = audit_directory(DIRECTORY, disk.files)
    return [finding for finding in findings if finding.severity is Severity.DAMAGE]


def lived(seed: int, steps: int = 40) -> MemoryDisk:
    """Return the disk of a long life with forks, deletes, snapshots and subscriptions."""
    disk = MemoryDisk()
    asyncio.run(Bench(disk, seed).live(steps))
    return disk


def written(*frames: Sequence[tuple[Event, bytes]]) -> MemoryDisk:
    """Return a disk whose log holds just these frames."""
    disk = MemoryDisk()
    _, _, _, log = recover(disk.files)
    for lsn, events in enumerate(frames, 1):
        parts = [(encode_event(event), data) for event, data in events]
        buffers = encode_frame(lsn, lsn - 1, KIND_EVENTS, parts, log.seed)
        log.write(buffers, log.plan(sum(map(len, buffers))))
    return disk


def made(stream_id: int = 1, fork: Fork | None = None) -> tuple[Event, bytes]:
    return StreamCreated(stream_id, f"s{stream_id}", JSON, 1000, None, None, fork), b""


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert list(audit_directory(tmp_path / "none")) == []


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_whole_directory_has_no_damage_and_is_left_alone(seed: int) -> None:
    disk = lived(seed)
    operations, content = len(disk.operations), disk.fingerprint()
    assert damage(disk) == []
    assert (len(disk.operations), disk.fingerprint()) == (operations, content)


def test_what_the_bytes_mean_is_not_asked_when_they_are_not_whole() -> None:
    disk = lived(1)
    disk.flip(f"{DIRECTORY}/log/0000000000000001.log", 100, 1)
    (found,) = damage(disk)
    assert found.file.endswith("0000000000000001.log")


@pytest.mark.parametrize("by", [-1, 1])
def test_a_snapshot_of_another_moment_is_found(by: int) -> None:
    disk = MemoryDisk()
    bench = Bench(disk, 3)

    async def live() -> None:
        await bench.live(6)
        lsn = bench.engine.writer.durable_lsn
        await bench.burst(bench.append("events/a", "a"))
        if by > 0:
            lsn = bench.engine.writer.durable_lsn
        records = list(dump(bench.machine, bench.engine.views))
        await bench.burst(bench.append("events/a", "a"))
        bench.snapshots.write(lsn + by, records)

    asyncio.run(live())
    assert damage(disk)


def test_a_frame_that_does_not_follow_is_found_at_its_place() -> None:
    late = Appended(1, 5, 1, 2000)
    (found,) = damage(written([made()], [(late, b"1")]))
    assert "does not follow" in found.what
    assert found.file.endswith("0000000000000001.log")
    assert found.position > 64


def test_messages_that_do_not_fill_their_frame_are_found() -> None:
    lengths = b"\1\0\0\0\1\0\0\0"
    right, wrong = Appended(1, 0, 2, 2000, lengths), Appended(1, 2, 2, 2000, lengths)
    (found,) = damage(written([made()], [(right, b"1,2")], [(wrong, b"1,22")]))
    assert "do not fill their frame" in found.what
    assert "messages 3 to 4" in found.what


def test_an_append_of_several_messages_without_their_lengths_is_found() -> None:
    (found,) = damage(written([made(), (Appended(1, 0, 2, 2000), b"1,2")]))
    assert "do not fill their frame" in found.what


def test_a_fork_that_leaves_its_source_at_a_wrong_time_is_found() -> None:
    fork = Fork(1, "s1", 1, 0, 1, 1999)
    (found,) = damage(written([made(), (Appended(1, 0, 1, 2000), b"1")], [made(2, fork)]))
    assert "stream 2" in found.what
    assert "time" in found.what


def test_a_fork_that_leaves_its_source_behind_its_end_is_found() -> None:
    fork = Fork(1, "s1", 7, 0, 7, 2000)
    found = damage(written([made()], [made(2, fork)]))
    assert any("behind its end" in finding.what for finding in found)


def test_a_producer_without_a_message_is_no_damage() -> None:
    events = [made(), (ProducerMoved(1, "p", 0, 0), b""), (StreamClosed(1, 2000, "p", 0, 0), b"")]
    assert damage(written(events)) == []
