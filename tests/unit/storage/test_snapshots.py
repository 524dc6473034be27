import errno
import struct

import pytest

from millstream.format.checksum import crc32c
from millstream.storage.damage import DataDamaged, UnknownFormat
from millstream.storage.snapshots import Snapshots, list_snapshots
from millstream.testing.files_memory import MemoryDisk
from tests.support.logs import DIRECTORY_ID, SNAPSHOTS

RECORDS = [b"one", b"", b"three" * 10, b"4"]


def snapshots(disk: MemoryDisk, directory_id: bytes = DIRECTORY_ID) -> Snapshots:
    return Snapshots(disk.files, SNAPSHOTS, directory_id, chunk_bytes=32)


def name(lsn: int) -> str:
    return f"{SNAPSHOTS}/{lsn:016d}.snap"


def listed(disk: MemoryDisk) -> list[str]:
    return disk.files.listdir(SNAPSHOTS) if "data" in disk.files.listdir("") else []


def test_a_snapshot_reads_back_as_it_was_written() -> None:
    disk = MemoryDisk()
    written = snapshots(disk).write(7, iter(RECORDS))
    assert (written.lsn, written.path, written.record_count) == (7, name(7), 4)
    found = snapshots(disk).open_newest()
    assert found == written
    assert list(found.records()) == RECORDS


def test_no_directory_holds_no_snapshot() -> None:
    empty = snapshots(MemoryDisk())
    assert empty.open_newest() is None
    assert empty.newest_lsn == 0
    assert empty.prune() == []


def test_a_snapshot_is_durable_when_write_returns() -> None:
    disk = MemoryDisk()
    snapshots(disk).write(7, RECORDS)
    after = next(disk.crash_states(1))
    found = snapshots(after).open_newest()
    assert found is not None
    assert list(found.records()) == RECORDS


@pytest.mark.parametrize("kind", ["create", "write", "sync", "rename", "mkdir"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
def test_a_failed_write_leaves_the_older_one_in_charge(kind: str, error: int) -> None:
    disk = MemoryDisk()
    mine = snapshots(disk)
    if kind != "mkdir":
        mine.write(7, RECORDS)
    disk.fail(kind, 1, error)
    with pytest.raises(OSError, match=r"."):
        mine.write(9, RECORDS)
    disk.heal()
    assert mine.newest_lsn == (0 if kind == "mkdir" else 7)
    assert not [path for path in listed(disk) if path.endswith(".tmp")]
    mine.write(9, RECORDS)
    assert mine.newest_lsn == 9


def test_records_that_cannot_be_made_leave_nothing_behind() -> None:
    disk = MemoryDisk()

    def broken() -> list[bytes]:
        raise KeyError

    with pytest.raises(KeyError):
        snapshots(disk).write(9, (record for _ in (1,) for record in broken()))
    assert disk.files.listdir(SNAPSHOTS) == []


def test_what_does_not_read_back_gets_no_name() -> None:
    disk = MemoryDisk()

    def rot(operation: object) -> None:
        if disk.operations[-1].kind == "sync" and disk.operations[-1].path.endswith(".tmp"):
            disk.flip(f"{SNAPSHOTS}/snapshot.tmp", 90, 1)

    disk.watch = rot
    with pytest.raises(DataDamaged):
        snapshots(disk).write(9, RECORDS)
    assert disk.files.listdir(SNAPSHOTS) == []


def test_every_flipped_bit_is_noticed() -> None:
    disk = MemoryDisk()
    snapshots(disk).write(7, RECORDS)
    size = len(disk.content(name(7)))
    for bit in range(size * 8):
        disk.flip(name(7), bit // 8, 1 << bit % 8)
        mine = snapshots(disk)
        assert mine.open_newest() is None, bit
        assert len(mine.passed_over) == 1
        disk.flip(name(7), bit // 8, 1 << bit % 8)


def test_every_missing_end_and_every_addition_is_noticed() -> None:
    disk = MemoryDisk()
    snapshots(disk).write(7, RECORDS)
    content = disk.content(name(7))
    for length in range(len(content)):
        disk.replace(name(7), content[:length])
        assert snapshots(disk).open_newest() is None
    disk.replace(name(7), content + b"\0")
    assert snapshots(disk).open_newest() is None


def test_swapped_chunks_are_noticed() -> None:
    disk = MemoryDisk()
    snapshots(disk).write(7, [b"a" * 30, b"b" * 30])
    content = disk.content(name(7))
    size = 24 + 4 + 30
    first, second = content[64 : 64 + size], content[64 + size : 64 + 2 * size]
    disk.replace(name(7), content[:64] + second + first + content[64 + 2 * size :])
    mine = snapshots(disk)
    assert mine.open_newest() is None
    assert "stands in place of" in mine.passed_over[0].what


def test_a_bad_newest_falls_back_and_is_reported() -> None:
    disk = MemoryDisk()
    mine = snapshots(disk)
    mine.write(7, [b"old"])
    mine.write(9, [b"new"])
    disk.flip(name(9), 70, 1)
    found = mine.open_newest()
    assert found is not None
    assert found.lsn == 7
    assert [damage.file for damage in mine.passed_over] == [name(9)]
    assert mine.newest_lsn == 9, "the log must still reach what the bad one claims"


def test_a_newer_version_is_never_passed_over() -> None:
    disk = MemoryDisk()
    mine = snapshots(disk)
    mine.write(7, [b"old"])
    mine.write(9, [b"new"])
    head = disk.content(name(9))[:64]
    head = head[:8] + struct.pack("<I", 2) + head[12:]
    head = head[:12] + struct.pack("<I", crc32c(head[16:], crc32c(head[:12]))) + head[16:]
    disk.replace(name(9), head + disk.content(name(9))[64:])
    with pytest.raises(UnknownFormat, match="version 2"):
        mine.open_newest()


def test_a_snapshot_of_another_directory_is_not_taken() -> None:
    disk = MemoryDisk()
    snapshots(disk, bytes(16)).write(7, RECORDS)
    mine = snapshots(disk)
    assert mine.open_newest() is None
    assert "another data directory" in mine.passed_over[0].what


def test_a_snapshot_under_another_s_name_is_not_taken() -> None:
    disk = MemoryDisk()
    snapshots(disk).write(7, RECORDS)
    disk.files.rename(name(7), name(8))
    mine = snapshots(disk)
    assert mine.open_newest() is None
    assert "bears frame 8" in mine.passed_over[0].what


def test_the_newest_two_are_kept() -> None:
    disk = MemoryDisk()
    mine = snapshots(disk)
    for lsn in (1, 5, 9, 12):
        mine.write(lsn, RECORDS)
    assert [file.lsn for file in mine.prune()] == [5, 1]
    assert [file.lsn for file in list_snapshots(disk.files, SNAPSHOTS)] == [12, 9]


def test_a_bad_one_does_not_count_as_kept() -> None:
    disk = MemoryDisk()
    mine = snapshots(disk)
    mine.write(5, RECORDS)
    mine.write(9, RECORDS)
    disk.flip(name(9), 70, 1)
    mine.open_newest()
    mine.write(12, RECORDS)
    assert mine.prune() == []
    mine.write(15, RECORDS)
    assert [file.lsn for file in mine.prune()] == [9, 5]


def test_a_whole_snapshot_is_noticed_when_it_rots_after_the_check() -> None:
    disk = MemoryDisk()
    found = snapshots(disk).write(7, RECORDS)
    disk.flip(name(7), 100, 1)
    with pytest.raises(DataDamaged):
        list(found.records())
