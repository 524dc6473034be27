import errno
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.format.frame import HEADER_BYTES
from millstream.format.logfile import LOG_HEADER_BYTES
from millstream.storage.damage import DataDamaged, LogFailed, UnknownFormat
from millstream.storage.log import Place
from millstream.testing.files_memory import MemoryDisk, Operation
from tests.support.logs import LOG, append, frame, mark, start

OVERHEAD = HEADER_BYTES + 8 + len(b"meta")


def test_a_batch_is_durable_when_write_returns() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    append(log, frame(1, b"one"), frame(2, b"two", 0))
    lost_everything_else = next(disk.crash_states(1))
    assert start(lost_everything_else.files).frames == [(1, (b"one",)), (2, (b"two",))]


def test_a_batch_is_one_write_and_one_sync() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    before = len(disk.operations)
    append(log, frame(1, b"one"), frame(2, b"two", 0))
    assert [op.kind for op in disk.operations[before:]] == ["write", "sync"]


def test_a_prepared_roll_is_a_small_write_and_two_syncs() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    append(log, frame(1, b"x" * 3000))
    log.prepare_next()
    log.prepare_next()
    assert log.is_next_ready
    before = len(disk.operations)
    assert append(log, frame(2, b"x" * 3000)) == (2, LOG_HEADER_BYTES)
    rolled = [op.kind for op in disk.operations[before:]]
    assert rolled == ["write", "sync", "rename", "sync_dir", "write", "sync"]
    assert not log.is_next_ready


def test_a_file_has_its_name_only_after_its_header_is_durable() -> None:
    disk = MemoryDisk()
    start(disk.files)
    kinds = [op.kind for op in disk.operations if op.path.startswith(LOG + "/") or op.path == LOG]
    assert kinds[-6:] == ["allocate", "sync", "write", "sync", "rename", "sync_dir"]


@pytest.mark.parametrize("size", range(OVERHEAD, 420, 7))
def test_it_rolls_rightly_at_every_batch_size(size: int) -> None:
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=400).log
    for lsn in range(1, 8):
        append(log, frame(lsn, b"x" * (size - OVERHEAD)))
    assert [lsn for lsn, _ in start(disk.kill().files, file_bytes=400).frames] == list(range(1, 8))


@given(st.lists(st.lists(st.integers(0, 300), min_size=1, max_size=4), max_size=12))
def test_batches_of_any_sizes_come_back(batches: list[list[int]]) -> None:
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=600).log
    written: list[tuple[int, tuple[bytes, ...]]] = []
    for batch in batches:
        durable = len(written)
        frames = []
        for size in batch:
            data = bytes([len(written) % 251]) * size
            written.append((len(written) + 1, (data,)))
            frames.append(frame(len(written), data, durable))
        append(log, *frames)
    assert start(disk.kill().files, file_bytes=600).frames == written


def test_a_frame_that_ends_with_its_file_needs_no_zeros_behind_it() -> None:
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=400).log
    append(log, frame(1, b"x" * (400 - LOG_HEADER_BYTES - OVERHEAD)))
    assert log.room == 0
    again = start(disk.kill().files, file_bytes=400)
    assert append(again.log, frame(2, b"y")) == (2, LOG_HEADER_BYTES)


def test_a_batch_above_the_file_size_gets_a_larger_file() -> None:
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=400).log
    log.prepare_next()
    append(log, frame(1, b"x" * 5000))
    assert len(disk.content(f"{LOG}/0000000000000002.log")) == LOG_HEADER_BYTES + OVERHEAD + 5000
    assert log.bytes_total == 400 + LOG_HEADER_BYTES + OVERHEAD + 5000
    assert start(disk.kill().files, file_bytes=400).frames == [(1, (b"x" * 5000,))]


def test_plans_are_reservations() -> None:
    log = start(MemoryDisk().files).log
    first, second = frame(1, b"a"), frame(2, b"b", 0)
    places = [log.plan(len(first)), log.plan(len(second))]
    assert places[1].position == places[0].position + len(first)
    log.write([first], places[0])
    log.write([second], places[1])


def test_a_batch_out_of_order_ends_the_log() -> None:
    log = start(MemoryDisk().files).log
    log.plan(100)
    with pytest.raises(LogFailed, match="planned"):
        log.write([frame(1, b"a")], log.plan(100))


@pytest.mark.parametrize("kind", ["write", "sync", "rename", "sync_dir", "allocate", "create"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS])
def test_the_first_error_ends_the_log(kind: str, error: int) -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    ordinal, position = append(log, frame(1, b"x" * 3000))
    disk.fail(kind, 1, error)
    with pytest.raises(LogFailed) as first:
        append(log, frame(2, b"x" * 3000))
    assert isinstance(first.value.__cause__, OSError)
    assert log.failed is not None
    before = len(disk.operations)
    with pytest.raises(LogFailed) as second:
        log.write([frame(2, b"y")], Place(1, 64, must_roll=False))
    assert second.value.cause == first.value.cause
    assert len(disk.operations) == before, "a failed log touches the disk no more"
    assert log.read(ordinal, position, OVERHEAD + 3000) == frame(1, b"x" * 3000)


@pytest.mark.parametrize("kind", ["create", "allocate", "sync"])
def test_a_next_file_that_cannot_be_made_ends_nothing(kind: str) -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    disk.fail(kind, 1, errno.ENOSPC)
    total = log.bytes_total
    with pytest.raises(OSError, match="space"):
        log.prepare_next()
    assert (log.failed, log.is_next_ready, log.bytes_total) == (None, False, total)
    assert disk.files.listdir(LOG) == ["0000000000000001.log"]
    log.prepare_next()
    assert log.is_next_ready
    append(log, frame(1, b"x"))


def test_a_frame_is_read_back_verified() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    one = frame(1, b"one")
    ordinal, position = append(log, one, mark(2))
    assert log.read(ordinal, position, len(one)) == one
    assert log.read(ordinal, position, len(one), lsn=1) == one
    with pytest.raises(DataDamaged, match="another frame"):
        log.read(ordinal, position, len(one), lsn=2)
    with pytest.raises(DataDamaged):
        log.read(ordinal, position, len(one) - 1)
    with pytest.raises(DataDamaged):
        log.read(ordinal, position, len(one) + 1)
    with pytest.raises(DataDamaged, match="missing"):
        log.read(9, position, len(one))


def test_every_flipped_bit_of_a_frame_is_noticed_on_read() -> None:
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=400).log
    one = frame(1, b"one")
    ordinal, position = append(log, one)
    path = f"{LOG}/0000000000000001.log"
    for bit in range(len(one) * 8):
        disk.flip(path, position + bit // 8, 1 << bit % 8)
        with pytest.raises((DataDamaged, UnknownFormat)):
            log.read(ordinal, position, len(one))
        disk.flip(path, position + bit // 8, 1 << bit % 8)
    assert log.read(ordinal, position, len(one)) == one


def test_reading_goes_on_while_another_thread_writes() -> None:
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=1000).log
    one = frame(1, b"one")
    ordinal, position = append(log, one)

    def write() -> None:
        for lsn in range(2, 60):
            append(log, frame(lsn, b"x" * 100))

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        assert log.read(ordinal, position, len(one)) == one
    writer.join()
    assert log.failed is None


def test_a_closed_log_leaves_no_temporary_file_and_takes_nothing() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    log.prepare_next()
    log.close()
    log.close()
    assert disk.files.listdir(LOG) == ["0000000000000001.log"]
    with pytest.raises(LogFailed, match="closed"):
        append(log, frame(1, b"x"))


def test_nobody_prepares_a_file_while_the_one_before_is_being_named() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    log.prepare_next()
    held: list[bool] = []

    def watch(operation: Operation) -> None:
        if operation.kind == "rename":
            held.append(log._next_lock.locked())

    disk.watch = watch
    append(log, frame(1, b"x" * 3000))
    append(log, frame(2, b"x" * 3000))
    disk.watch = None
    assert held == [True]
