from millstream.storage.snapshots import Snapshots
from millstream.storage.verify import Finding, Severity, verify_structure
from millstream.testing.files_memory import MemoryDisk
from tests.support.logs import DIRECTORY_ID, LOG, SNAPSHOTS, append, frame, mark, start

FIRST = f"{LOG}/0000000000000001.log"
SECOND = f"{LOG}/0000000000000002.log"
SNAPSHOT = f"{SNAPSHOTS}/0000000000000003.snap"


def directory() -> MemoryDisk:
    """Frames 1 and 2, frames 3 and 4 and a mark in a second file, a snapshot at 3."""
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=400).log
    for lsn in range(1, 5):
        append(log, frame(lsn, b"x" * 100))
    append(log, mark(5))
    log.close()
    Snapshots(disk.files, SNAPSHOTS, DIRECTORY_ID).write(3, [b"state"])
    return disk


def findings(disk: MemoryDisk) -> list[Finding]:
    before = disk.fingerprint()
    count = len(disk.operations)
    found = list(verify_structure(disk.files, LOG, SNAPSHOTS))
    assert disk.fingerprint() == before
    assert len(disk.operations) == count, "the check must not change anything"
    return found


def damages(disk: MemoryDisk) -> list[Finding]:
    return [finding for finding in findings(disk) if finding.severity is Severity.DAMAGE]


def notes(disk: MemoryDisk) -> list[str]:
    return [found.what for found in findings(disk) if found.severity is Severity.NOTE]


def test_a_whole_directory_has_no_damage() -> None:
    disk = directory()
    assert damages(disk) == []
    assert notes(disk) == ["frames 5 to 5 are whole; no later frame proves it"]


def test_no_directory_has_no_damage() -> None:
    assert findings(MemoryDisk()) == []


def test_every_flipped_bit_of_a_proven_frame_is_damage() -> None:
    disk = directory()
    for path, size in ((FIRST, 64 + 2 * 144), (SECOND, 64 + 2 * 144)):
        for position in range(size):
            disk.flip(path, position, 1 << position % 8)
            assert any(found.file == path for found in damages(disk)), (path, position)
            disk.flip(path, position, 1 << position % 8)


def test_every_damaged_byte_of_a_snapshot_is_damage() -> None:
    disk = directory()
    for position in range(len(disk.content(SNAPSHOT))):
        disk.flip(SNAPSHOT, position, 1 << position % 8)
        assert [found.file for found in damages(disk)] == [SNAPSHOT]
        disk.flip(SNAPSHOT, position, 1 << position % 8)


def test_a_torn_tail_is_a_note() -> None:
    disk = directory()
    disk.flip(SECOND, 380, 1)
    assert damages(disk) == []
    assert any("torn tail" in note for note in notes(disk))


def test_bytes_behind_a_full_file_are_a_note() -> None:
    disk = directory()
    disk.flip(FIRST, 390, 1)
    assert damages(disk) == []
    assert any("not zero" in note for note in notes(disk))


def test_a_stray_file_is_a_note() -> None:
    disk = directory()
    disk.files.create(f"{LOG}/stray")
    assert damages(disk) == []
    assert any("ignored" in note for note in notes(disk))


def test_a_missing_file_is_damage() -> None:
    disk = directory()
    log = start(disk.files, file_bytes=400).log
    append(log, frame(6, b"x" * 300))
    disk.files.unlink(SECOND)
    assert any(SECOND.removeprefix(LOG + "/") in found.what for found in damages(disk))


def test_a_log_that_ends_before_its_snapshot_is_damage() -> None:
    disk = directory()
    disk.files.unlink(SECOND)
    assert any("a snapshot reaches to 3" in found.what for found in damages(disk))


def test_a_snapshot_alone_is_damage() -> None:
    disk = directory()
    disk.files.unlink(FIRST)
    disk.files.unlink(SECOND)
    assert [found.what for found in damages(disk)] == ["there is a snapshot but no log file"]


def test_a_log_that_starts_late_is_a_note_at_older_snapshots() -> None:
    disk = directory()
    Snapshots(disk.files, SNAPSHOTS, DIRECTORY_ID).write(1, [b"state"])
    disk.files.unlink(FIRST)
    assert damages(disk) == []
    assert any("cannot be used" in note for note in notes(disk))


def test_a_log_that_starts_late_without_a_snapshot_is_damage() -> None:
    disk = directory()
    disk.files.unlink(FIRST)
    disk.files.unlink(SNAPSHOT)
    assert any("starts at frame 3" in found.what for found in damages(disk))
