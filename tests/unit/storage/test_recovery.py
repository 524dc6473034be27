import errno
import struct

import pytest

from millstream.format.checksum import crc32c
from millstream.format.frame import KIND_EVENTS, encode_frame
from millstream.format.logfile import LOG_HEADER_BYTES, LogHeader, encode_log_header
from millstream.storage.damage import DataDamaged, LogFailed, UnknownFormat
from millstream.storage.recovery import FileScan, Recovery
from millstream.testing.files_memory import MemoryDisk
from tests.support.logs import DIRECTORY_ID, LOG, SEED, append, frame, mark, options, start

FIRST = f"{LOG}/0000000000000001.log"
SECOND = f"{LOG}/0000000000000002.log"
FILE_BYTES = 400


def disk_with(*batches: list[bytes]) -> MemoryDisk:
    disk = MemoryDisk()
    log = start(disk.files, file_bytes=FILE_BYTES).log
    for batch in batches:
        append(log, *batch)
    log.close()
    return disk


def lsns(disk: MemoryDisk, after: int = 0, proven: int = 0) -> list[int]:
    started = start(disk.files, file_bytes=FILE_BYTES, after=after, proven=proven)
    return [lsn for lsn, _ in started.frames]


def test_a_new_directory_gets_its_first_file() -> None:
    disk = MemoryDisk()
    started = start(disk.files)
    assert started.recovered.directory_id == DIRECTORY_ID
    assert disk.content(FIRST)[:64] == encode_log_header(LogHeader(DIRECTORY_ID, 1, 1, 4096))
    assert started.recovered.lsn_last == 0


def test_an_old_directory_keeps_its_id() -> None:
    disk = disk_with([frame(1, b"a")])
    other = options(FILE_BYTES)
    recovery = Recovery.open(disk.files, LOG, type(other)(file_bytes=FILE_BYTES))
    assert recovery.directory_id == DIRECTORY_ID


def test_nothing_is_written_before_finish() -> None:
    disk = disk_with([frame(1, b"a")])
    disk.replace(FIRST, disk.content(FIRST)[:-1] + b"x")
    before = disk.content(FIRST)
    recovery = Recovery.open(disk.files, LOG, options(FILE_BYTES))
    with pytest.raises(RuntimeError, match="first"):
        recovery.finish()
    list(recovery.frames())
    assert disk.content(FIRST) == before
    recovery.finish()
    assert disk.content(FIRST) != before


def test_a_tail_torn_at_any_byte_is_cut_to_whole_frames() -> None:
    two = frame(2, b"second")
    disk = disk_with([frame(1, b"first")], [two])
    whole = disk.content(FIRST)
    at = LOG_HEADER_BYTES + len(frame(1, b"first"))
    for kept in range(len(two)):
        torn = disk.kill()
        torn.replace(FIRST, whole[: at + kept] + bytes(len(whole) - at - kept))
        if torn.content(FIRST) == whole:
            continue
        started = start(torn.files, file_bytes=FILE_BYTES)
        assert started.frames == [(1, (b"first",))]
        assert not any(torn.content(FIRST)[at:])
        cut = started.recovered.cut
        assert cut is None if kept == 0 else cut is not None and cut.position == at
        append(started.log, frame(2, b"another"))
        assert lsns(torn) == [1, 2]


def test_a_tail_torn_in_the_middle_takes_the_whole_frames_behind_it_along() -> None:
    batch = [frame(2, b"two", 1), frame(3, b"three", 1), frame(4, b"four", 1)]
    disk = disk_with([frame(1, b"one")], batch)
    at = LOG_HEADER_BYTES + len(frame(1, b"one"))
    disk.flip(FIRST, at + 40, 1)
    started = start(disk.files, file_bytes=FILE_BYTES)
    assert [lsn for lsn, _ in started.frames] == [1]
    assert started.recovered.cut is not None
    assert started.recovered.cut.length == sum(map(len, batch))
    append(started.log, frame(2, b"new"))
    assert lsns(disk) == [1, 2], "frames 3 and 4 of the lost batch must not come back"


def test_every_flipped_bit_before_the_proven_tail_is_refused() -> None:
    one = frame(1, b"first")
    disk = disk_with([one], [mark(2)])
    before = disk.content(FIRST)
    for bit in range((LOG_HEADER_BYTES + len(one)) * 8):
        disk.flip(FIRST, bit // 8, 1 << bit % 8)
        with pytest.raises((DataDamaged, UnknownFormat)) as caught:
            start(disk.files, file_bytes=FILE_BYTES)
        assert isinstance(caught.value, DataDamaged | UnknownFormat)
        assert caught.value.file == FIRST
        assert caught.value.position in (0, LOG_HEADER_BYTES)
        disk.flip(FIRST, bit // 8, 1 << bit % 8)
    assert disk.content(FIRST) == before


def test_every_flipped_bit_of_the_unproven_tail_is_cut_not_served() -> None:
    two = frame(2, b"second")
    disk = disk_with([frame(1, b"first")], [two])
    at = LOG_HEADER_BYTES + len(frame(1, b"first"))
    for bit in range(len(two) * 8):
        copy = disk.kill()
        copy.flip(FIRST, at + bit // 8, 1 << bit % 8)
        assert lsns(copy) == [1]


def test_damage_names_the_proof() -> None:
    disk = disk_with([frame(1, b"one")], [frame(2, b"two")])
    disk.flip(FIRST, LOG_HEADER_BYTES + 40, 1)
    with pytest.raises(DataDamaged, match=r"frame 1 was durable.*checksum.*millstream verify"):
        start(disk.files, file_bytes=FILE_BYTES)


def test_a_zeroed_durable_frame_is_damage_too() -> None:
    disk = disk_with([frame(1, b"one")], [frame(2, b"two")])
    content = bytearray(disk.content(FIRST))
    content[64 : 64 + len(frame(1, b"one"))] = bytes(len(frame(1, b"one")))
    disk.replace(FIRST, bytes(content))
    with pytest.raises(DataDamaged, match="frame 1 was durable"):
        start(disk.files, file_bytes=FILE_BYTES)


def test_a_snapshot_proves_what_the_log_must_hold() -> None:
    disk = disk_with([frame(1, b"one")], [frame(2, b"two")])
    at = LOG_HEADER_BYTES + len(frame(1, b"one"))
    disk.flip(FIRST, at + 40, 1)
    with pytest.raises(DataDamaged, match="a snapshot reaches to frame 2"):
        lsns(disk, proven=2)
    assert lsns(disk, after=1, proven=1) == []


def full_files() -> MemoryDisk:
    """Three files: frames 1 and 2, frames 3 and 4, frame 5."""
    return disk_with(*([frame(lsn, b"x" * 100)] for lsn in range(1, 6)))


def test_frames_stream_over_files_from_any_lsn() -> None:
    for after in range(6):
        assert lsns(full_files(), after=after) == list(range(after + 1, 6))


@pytest.mark.parametrize("up_to", range(1, 6))
def test_reading_up_to_a_frame_looks_no_further(up_to: int) -> None:
    disk = full_files()
    log = start(disk.files, file_bytes=FILE_BYTES).log
    # A log in use: the frame behind the last has been seen half written, its successor whole.
    append(log, frame(6, b"x" * 20))
    ordinal, position = append(log, frame(7, b"y"))
    disk.flip(f"{LOG}/{ordinal:016d}.log", position - 20, 1)
    recovery = Recovery.open(disk.files, LOG, options(FILE_BYTES))
    assert [p.frame.lsn for p in recovery.frames(up_to=up_to)] == list(range(1, up_to + 1))
    with pytest.raises(RuntimeError):
        recovery.finish()
    with pytest.raises(DataDamaged):
        list(Recovery.open(disk.files, LOG, options(FILE_BYTES)).frames())


def test_reading_up_to_what_is_known_already_yields_nothing() -> None:
    recovery = Recovery.open(full_files().files, LOG, options(FILE_BYTES))
    assert list(recovery.frames(after=3, up_to=2)) == []


def test_a_frame_that_is_not_there_cannot_be_read_up_to() -> None:
    recovery = Recovery.open(full_files().files, LOG, options(FILE_BYTES))
    with pytest.raises(DataDamaged, match="frame 6 is missing"):
        list(recovery.frames(up_to=9))


def test_opening_makes_no_directory() -> None:
    disk = MemoryDisk()
    assert list(Recovery.open(disk.files, LOG, options()).frames()) == []
    assert disk.operations == []


def test_places_lead_back_to_the_frames() -> None:
    disk = full_files()
    recovery = Recovery.open(disk.files, LOG, options(FILE_BYTES))
    places = [(p.ordinal, p.position, p.frame.length, bytes(p.data)) for p in recovery.frames()]
    log = recovery.finish()
    for ordinal, position, length, data in places:
        assert log.read(ordinal, position, length) == data


def test_files_before_the_start_are_not_read() -> None:
    disk = full_files()
    recovery = Recovery.open(disk.files, LOG, options(FILE_BYTES))
    assert [p.frame.lsn for p in recovery.frames(after=4)] == [5]
    recovery.finish()
    assert recovery.recovered is not None
    assert recovery.recovered.bytes_read == FILE_BYTES


@pytest.mark.parametrize("position", [70, 250])
def test_damage_in_a_full_file_is_refused_even_at_its_end(position: int) -> None:
    disk = full_files()
    disk.flip(FIRST, position, 4)
    with pytest.raises(DataDamaged, match="is missing") as caught:
        lsns(disk)
    assert caught.value.file == FIRST


def test_a_missing_file_is_damage() -> None:
    disk = full_files()
    disk.files.unlink(SECOND)
    with pytest.raises(DataDamaged, match=r"0000000000000002\.log"):
        lsns(disk)


def test_a_missing_first_file_is_damage_unless_a_snapshot_covers_it() -> None:
    disk = full_files()
    disk.files.unlink(FIRST)
    with pytest.raises(DataDamaged, match="starts at frame 3, but 1 is needed"):
        lsns(disk)
    assert lsns(disk, after=2) == [3, 4, 5]


def test_a_snapshot_without_a_log_is_damage() -> None:
    with pytest.raises(DataDamaged, match="no log file"):
        start(MemoryDisk().files, after=3)
    with pytest.raises(DataDamaged, match="no log file"):
        start(MemoryDisk().files, proven=3)


def test_a_file_of_another_directory_is_refused() -> None:
    disk = full_files()
    foreign = encode_log_header(LogHeader(bytes(16), 2, 3, FILE_BYTES))
    disk.replace(SECOND, foreign + disk.content(SECOND)[64:])
    with pytest.raises(DataDamaged, match="another data directory"):
        lsns(disk)


def test_a_file_under_another_s_name_is_refused() -> None:
    disk = full_files()
    disk.replace(SECOND, disk.content(FIRST))
    with pytest.raises(DataDamaged, match="bears ordinal 2 but holds 1"):
        lsns(disk)


def test_a_file_that_goes_back_is_refused() -> None:
    disk = full_files()
    back = encode_log_header(LogHeader(DIRECTORY_ID, 3, 2, FILE_BYTES))
    third = f"{LOG}/0000000000000003.log"
    disk.replace(third, back + disk.content(third)[64:])
    with pytest.raises(DataDamaged, match="starts before"):
        lsns(disk)


def newer_version(data: bytes, at: int, crc_at: int, end: int, seed: int = 0) -> bytes:
    """Raise a version number and mend the checksum."""
    changed = bytearray(data)
    changed[at] += 1
    piece = bytes(changed[:end])
    changed[crc_at : crc_at + 4] = struct.pack(
        "<I", crc32c(piece[crc_at + 4 :], crc32c(piece[:crc_at], seed))
    )
    return bytes(changed)


def test_a_newer_file_is_refused_as_newer() -> None:
    disk = disk_with([frame(1, b"one")])
    disk.replace(FIRST, newer_version(disk.content(FIRST), 8, 12, 64))
    with pytest.raises(UnknownFormat, match="version 2"):
        lsns(disk)


def test_a_newer_frame_is_refused_as_newer() -> None:
    disk = disk_with([frame(1, b"one")])
    content = disk.content(FIRST)
    newer = newer_version(content[64:], 24, 4, len(frame(1, b"one")), SEED)
    disk.replace(FIRST, content[:64] + newer)
    with pytest.raises(UnknownFormat, match="version 2"):
        lsns(disk)
    assert disk.content(FIRST) == content[:64] + newer


def test_a_prepared_file_left_behind_is_removed() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    log.prepare_next()
    assert "next.tmp" in disk.files.listdir(LOG)
    again = disk.kill()
    start(again.files)
    assert again.files.listdir(LOG) == ["0000000000000001.log"]


def test_what_a_start_replayed_is_durable_although_its_sync_failed_before() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    append(log, frame(1, b"one"))
    disk.fail("sync", 1, errno.EIO)
    with pytest.raises(LogFailed):
        append(log, frame(2, b"two"))
    next_life = disk.kill()
    seen = start(next_life.files).frames
    after_power_loss = next(next_life.crash_states(1))
    assert start(after_power_loss.files).frames == seen == [(1, (b"one",)), (2, (b"two",))]


def test_a_directory_whose_name_was_not_durable_is_made_so() -> None:
    disk = MemoryDisk()
    disk.fail("sync_dir", 1)
    with pytest.raises(OSError, match="error"):
        start(disk.files)
    next_life = disk.kill()
    append(start(next_life.files).log, frame(1, b"one"))
    assert start(next(next_life.crash_states(1)).files).frames == [(1, (b"one",))]


def test_a_file_whose_name_was_not_durable_is_made_so() -> None:
    disk = disk_with([frame(1, b"x" * 200)])
    log = start(disk.files, file_bytes=FILE_BYTES).log
    killed: list[MemoryDisk] = []
    disk.watch = lambda op: killed.append(disk.kill()) if op.kind == "rename" else None
    append(log, frame(2, b"x" * 200))
    (next_life,) = killed
    append(start(next_life.files, file_bytes=FILE_BYTES).log, frame(2, b"again"))
    assert lsns(next(next_life.crash_states(1))) == [1, 2]


def test_a_whole_frame_in_the_wrong_place_is_not_replayed() -> None:
    disk = disk_with([frame(1, b"one")], [frame(2, b"two")])
    at = LOG_HEADER_BYTES + len(frame(1, b"one"))
    content = disk.content(FIRST)
    for stray in (frame(1, b"two"), frame(3, b"two", 1)):
        disk.replace(FIRST, content[:at] + stray + content[at + len(stray) :])
        assert lsns(disk.kill()) == [1]
    disk.replace(FIRST, content[:at] + frame(3, b"two") + content[at + len(stray) :])
    with pytest.raises(DataDamaged, match="frame 3 stands where frame 2 belongs"):
        lsns(disk)


def test_a_killed_process_s_unsynced_frames_are_kept_for_good_or_cut() -> None:
    disk = MemoryDisk()
    log = start(disk.files).log
    append(log, frame(1, b"one"))
    at_the_write: list[MemoryDisk] = []
    disk.watch = lambda op: at_the_write.append(disk.kill()) if op.kind == "write" else None
    append(log, frame(2, b"two"))
    (killed,) = at_the_write
    assert [lsn for lsn, _ in start(killed.files).frames] == [1, 2]
    for state in killed.crash_states(50):
        assert [lsn for lsn, _ in start(state.files).frames] == [1, 2]


def test_an_empty_last_file_may_be_followed_by_a_larger_one() -> None:
    disk = disk_with([frame(1, b"x" * 200)])
    log = start(disk.files, file_bytes=FILE_BYTES).log
    crashed: list[MemoryDisk] = []
    disk.watch = lambda op: crashed.append(disk.kill()) if op.kind == "rename" else None
    append(log, frame(2, b"x" * 200))
    (state,) = crashed
    log = start(state.files, file_bytes=FILE_BYTES).log
    append(log, frame(2, b"y" * 900))
    assert lsns(state) == [1, 2]


def test_a_scan_knows_from_where_on_nothing_is_proven() -> None:
    batches = [frame(1, b"a", 0), frame(2, b"b", 0), frame(3, b"c", 0), frame(4, b"d", 2)]
    data = bytes(LOG_HEADER_BYTES) + b"".join(batches) + bytes(9)
    scan = FileScan(data, LogHeader(DIRECTORY_ID, 1, 1, len(data)))
    assert len(list(scan)) == 4
    assert scan.lsn_proven == 2
    start_of_3 = LOG_HEADER_BYTES + len(batches[0]) + len(batches[1])
    assert scan.unproven_position <= start_of_3


def test_bytes_that_a_client_stored_never_pass_for_a_frame() -> None:
    # Whole frames with fitting numbers, as any client could send them: not of this directory.
    forged = b"".join(encode_frame(4, 3, KIND_EVENTS, [(b"meta", b"forged")]))
    disk = disk_with([frame(1, b"one")], [frame(2, b"x" * 40 + forged)])
    content = bytearray(disk.content(FIRST))
    content[content.index(b"x" * 40)] ^= 0xFF
    disk.replace(FIRST, bytes(content))
    assert lsns(disk) == [1]


def test_a_file_that_lost_its_end_is_damaged() -> None:
    disk = disk_with([frame(1, b"one")])
    disk.replace(FIRST, disk.content(FIRST)[:-1])
    with pytest.raises(DataDamaged, match="was made with"):
        lsns(disk)
