"""From a data directory back to the state: snapshot, then the log behind it, or a clear error."""

import pytest

from millstream.core.events import Appended, Event, StreamCreated
from millstream.core.machine import Bounds
from millstream.engine.replay import Replayed, replay
from millstream.engine.snapshotting import dump
from millstream.format.events import encode_event
from millstream.format.frame import KIND_EVENTS, encode_frame
from millstream.storage.damage import DataDamaged
from millstream.testing.files_memory import MemoryDisk
from tests.support.logs import SEED, mark, options, start
from tests.support.logs import append as append_frames

CREATED = StreamCreated(1, "a", "text/plain", 100, None, None, None)


def event_frame(lsn: int, *events: Event, data: bytes = b"x") -> bytes:
    parts = [(encode_event(e), data if isinstance(e, Appended) else b"") for e in events]
    return b"".join(encode_frame(lsn, lsn - 1, KIND_EVENTS, parts, SEED))


def disk(*frames: bytes) -> MemoryDisk:
    memory = MemoryDisk()
    log = start(memory.files).log
    for each in frames:
        append_frames(log, each)
    return memory


def appended(lsn: int) -> bytes:
    return event_frame(lsn, Appended(1, lsn - 2, 1, 100 + lsn))


def run(memory: MemoryDisk, up_to: int | None = None) -> Replayed:
    return replay(memory.files, "data", options(), Bounds(), 1000, up_to)


def test_nothing_gives_an_empty_state() -> None:
    found = run(MemoryDisk())
    assert (found.lsn, found.frames, len(found.views)) == (0, 0, 0)


def test_every_frame_reaches_machine_and_views() -> None:
    found = run(disk(event_frame(1, CREATED), appended(2), appended(3), mark(4)))
    assert (found.lsn, found.frames, found.snapshot_lsn) == (4, 4, 0)
    stream, tail = found.machine.streams.by_path["a"], found.views.by_id(1)
    assert tail is not None
    assert (stream.tail_index, tail.index, tail.time_ms) == (2, 2, 103)
    assert found.views.hot_bytes == 0
    assert found.views.take_changed() == []


def test_a_replay_can_stop_behind_a_frame() -> None:
    memory = disk(event_frame(1, CREATED), appended(2), appended(3))
    found = run(memory, up_to=2)
    assert found.lsn == 2
    assert found.machine.streams.by_path["a"].tail_index == 1


def test_what_lies_behind_that_frame_is_not_even_looked_at() -> None:
    memory = disk(event_frame(1, CREATED), appended(2), appended(3), appended(4))
    path = "data/log/0000000000000001.log"
    third = memory.content(path).index(appended(3))
    memory.flip(path, third + 20, 0xFF)
    assert run(memory, up_to=2).lsn == 2
    with pytest.raises(DataDamaged):
        run(memory)


def test_the_log_goes_on_behind_the_newest_snapshot() -> None:
    memory = disk(event_frame(1, CREATED), appended(2), appended(3))
    part = run(memory, up_to=2)
    part.snapshots.write(2, dump(part.machine, part.views))
    found = run(memory)
    assert (found.snapshot_lsn, found.lsn, found.frames) == (2, 3, 1)
    assert found.machine.streams.by_path["a"].tail_index == 2
    tail = found.views.by_id(1)
    assert tail is not None
    assert [tail.extents.row(number).end for number in range(2)] == [1, 2]


def test_a_damaged_snapshot_is_passed_over_while_the_log_is_whole() -> None:
    memory = disk(event_frame(1, CREATED), appended(2), appended(3))
    part = run(memory, up_to=2)
    written = part.snapshots.write(2, dump(part.machine, part.views))
    memory.flip(written.path, 70, 1)
    found = run(memory)
    assert (found.snapshot_lsn, found.frames) == (0, 3)
    assert len(found.snapshots.passed_over) == 1


def test_a_snapshot_whose_records_do_not_add_up_is_damage() -> None:
    memory = disk(event_frame(1, CREATED))
    found = run(memory)
    found.snapshots.write(1, list(dump(found.machine, found.views))[:1])
    with pytest.raises(DataDamaged, match="does not add up"):
        run(memory)


@pytest.mark.parametrize(
    "frame, reason",
    [
        (event_frame(2, Appended(1, 5, 1, 200)), "I-05"),
        (event_frame(2, Appended(9, 0, 1, 200)), "KeyError"),
        (event_frame(2, CREATED), "I-07"),
        (b"".join(encode_frame(2, 1, KIND_EVENTS, [(b"\x92\xcc\xff\x01", b"")], SEED)), "Invalid"),
        (b"".join(encode_frame(2, 1, KIND_EVENTS, [(b"\xc1", b"")], SEED)), "Error"),
    ],
)
def test_a_frame_that_cannot_follow_is_damage_with_its_place(frame: bytes, reason: str) -> None:
    memory = disk(event_frame(1, CREATED), frame)
    with pytest.raises(DataDamaged, match=reason) as caught:
        run(memory)
    assert caught.value.position == 64 + len(event_frame(1, CREATED))
    assert "frame 2 does not follow" in caught.value.what


def test_a_replay_changes_nothing_on_the_disk() -> None:
    memory = disk(event_frame(1, CREATED), appended(2))
    before = memory.fingerprint()
    run(memory)
    assert memory.fingerprint() == before
