import errno
import random

import pytest

from millstream.testing.files_memory import MemoryDisk


def disk_with_a_file() -> MemoryDisk:
    """Hold one stable file d/a with ``stable`` in it."""
    disk = MemoryDisk()
    disk.files.mkdir("d")
    handle = disk.files.create("d/a")
    handle.pwritev([b"sta", b"ble"], 0)
    handle.fdatasync()
    disk.files.sync_dir("d")
    return disk


def test_it_reads_back_what_was_written() -> None:
    disk = disk_with_a_file()
    handle = disk.files.open("d/a", write=True)
    handle.pwritev([b"X"], 8)
    assert handle.pread(99, 0) == b"stable\0\0X"
    handle.truncate(2)
    assert handle.size() == 2
    handle.allocate(4)
    assert disk.content("d/a") == b"st\0\0"


def test_it_refuses_what_a_real_disk_refuses() -> None:
    files = disk_with_a_file().files
    for call in (
        lambda: files.create("d/a"),
        lambda: files.open("d/b"),
        lambda: files.open("d"),
        lambda: files.unlink("d/b"),
        lambda: files.listdir("d/a"),
        lambda: files.rename("d/a", "b"),
        lambda: files.open("d/a").pwritev([b"x"], 0),
    ):
        with pytest.raises(OSError, match=r"."):
            call()


def test_what_is_synced_survives_every_crash() -> None:
    disk = disk_with_a_file()
    disk.files.open("d/a", write=True).pwritev([b"later" * 500], 6)
    states = list(disk.crash_states(40))
    assert len(states) == 40
    assert all(state.content("d/a").startswith(b"stable") for state in states)
    assert len({state.fingerprint() for state in states}) == 40


def test_what_is_not_synced_is_lost_in_some_crash_and_kept_in_another() -> None:
    disk = disk_with_a_file()
    disk.files.open("d/a", write=True).pwritev([b"!"], 6)
    assert {state.content("d/a") for state in disk.crash_states(10)} == {
        b"stable",
        b"stable!",
        b"stable\0",
    }


def test_a_name_is_stable_only_after_its_directory_is_synced() -> None:
    disk = disk_with_a_file()
    disk.files.create("d/b").fdatasync()
    disk.files.rename("d/a", "d/c")
    found = {tuple(state.files.listdir("d")) for state in disk.crash_states(20)}
    assert found == {("a",), ("a", "b"), ("c",), ("b", "c")}
    disk.files.sync_dir("d")
    assert [state.files.listdir("d") for state in disk.crash_states(20)] == [["b", "c"]]


def test_unsynced_writes_may_be_kept_in_any_order() -> None:
    disk = disk_with_a_file()
    handle = disk.files.open("d/a", write=True)
    handle.pwritev([b"1"], 0)
    handle.pwritev([b"2"], 3)
    assert b"sta2le" in {state.content("d/a") for state in disk.crash_states(50)}


def test_crashes_repeat_with_their_seed() -> None:
    disk = disk_with_a_file()
    disk.files.open("d/a", write=True).pwritev([bytes(range(256)) * 20], 0)

    def prints(seed: int) -> list[int]:
        return [state.fingerprint() for state in disk.crash_states(60, seed)]

    assert prints(3) == prints(3)
    assert prints(3) != prints(4)
    one, two = (disk.crash(random.Random(5)).fingerprint() for _ in range(2))
    assert one == two


def test_a_killed_process_leaves_what_it_wrote_unstable() -> None:
    disk = disk_with_a_file()
    disk.files.open("d/a", write=True).pwritev([b"!"], 6)
    killed = disk.kill()
    assert killed.content("d/a") == b"stable!"
    assert next(killed.crash_states(1)).content("d/a") == b"stable"
    killed.files.open("d/a", write=True).fdatasync()
    assert next(killed.crash_states(1)).content("d/a") == b"stable!"
    assert next(disk.crash_states(1)).content("d/a") == b"stable"


def test_a_failed_sync_loses_data_and_the_next_one_lies() -> None:
    disk = disk_with_a_file()
    handle = disk.files.open("d/a", write=True)
    handle.pwritev([b"!"], 6)
    disk.fail("sync", 1)
    with pytest.raises(OSError, match="Input/output") as caught:
        handle.fdatasync()
    assert caught.value.errno == errno.EIO
    handle.fdatasync()
    assert disk.content("d/a") == b"stable!"
    assert next(disk.crash_states(1)).content("d/a") == b"stable"


def test_a_failed_write_leaves_half_of_it() -> None:
    disk = disk_with_a_file()
    disk.fail("write", 2, errno.ENOSPC)
    handle = disk.files.open("d/a", write=True)
    handle.pwritev([b"1"], 0)
    with pytest.raises(OSError, match="space"):
        handle.pwritev([b"abcd"], 6)
    assert disk.content("d/a") == b"1tableab"
    handle.pwritev([b"2"], 0)


def test_a_sticky_fault_stays_until_healed() -> None:
    disk = disk_with_a_file()
    disk.fail("rename", 1, errno.EROFS, sticky=True)
    for _ in range(3):
        with pytest.raises(OSError, match="Read-only"):
            disk.files.rename("d/a", "d/b")
    disk.heal()
    disk.files.rename("d/a", "d/b")


def test_every_operation_is_recorded_and_watched() -> None:
    disk = MemoryDisk()
    seen: list[str] = []
    disk.watch = lambda operation: seen.append(operation.kind)
    disk.files.create("a").pwritev([b"xyz"], 0)
    assert seen == ["create", "write"]
    assert disk.operations[1] == (2, "write", "a", 3)


def test_a_lock_is_held_once() -> None:
    disk = MemoryDisk()
    held = disk.files.lock("LOCK", b"7")
    with pytest.raises(BlockingIOError):
        disk.files.lock("LOCK", b"8")
    assert disk.content("LOCK") == b"7"
    held.close()
    disk.files.lock("LOCK", b"8")
