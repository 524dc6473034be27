import random

import pytest

from millstream.core import media
from millstream.core.streams.commands import Added, Append, Created, CreateStream
from millstream.storage.damage import DataDamaged
from millstream.testing.clients import batch
from millstream.testing.files_memory import MemoryDisk
from millstream.testing.ledger import Tag
from millstream.testing.server_life import Life
from tests.support.lives import start_life

TAG = Tag("p", 0, 0, 0, 3)


def ask(life: Life, command: CreateStream | Append) -> object:
    answers: list[object] = []
    life.engine.submit(command, answers.append)
    life.loop.run_for(100_000)
    return answers[0]


def fill(life: Life) -> None:
    assert isinstance(ask(life, CreateStream(path="a", content_type=media.JSON)), Created)
    assert isinstance(ask(life, Append("a", media.JSON, batch(TAG))), Added)


def messages(life: Life) -> list[bytes]:
    tail = life.engine.views.by_id(1)
    assert tail is not None
    return [seen.data for seen in life.messages(tail)]


EXPECTED = [TAG._replace(part=part).encode() for part in range(3)]


@pytest.mark.parametrize("how", ["power", "kill", "stop", "snapshot"])
def test_what_was_answered_is_there_in_the_next_life(how: str) -> None:
    disk = MemoryDisk()
    life = start_life(disk)
    fill(life)
    if how == "stop":
        life.stop()
    if how == "snapshot":
        life.snapshot()
    after = disk.kill() if how == "kill" else disk.crash(random.Random(1))
    assert messages(start_life(after)) == EXPECTED


def test_nothing_is_answered_before_the_disk_had_its_time() -> None:
    life = start_life(MemoryDisk())
    answers: list[object] = []
    life.engine.submit(CreateStream(path="a", content_type=None), answers.append)
    life.loop.run_for(0)
    assert answers == []


def test_a_failed_sync_poisons_the_disk() -> None:
    disk = MemoryDisk()
    life = start_life(disk)
    disk.fail("sync", 1)
    ask(life, CreateStream(path="a", content_type=None))
    assert life.slow_disk.is_poisoned
    assert life.engine.writer.failure is not None


def test_a_damaged_log_does_not_start_life() -> None:
    disk = MemoryDisk()
    life = start_life(disk)
    fill(life)
    life.stop()
    disk.flip("data/log/0000000000000001.log", 70, 1)
    with pytest.raises(DataDamaged):
        start_life(disk.kill())


def test_a_reader_in_the_last_moment_keeps_the_stream_alive_for_writers_too() -> None:
    life = start_life(MemoryDisk())
    ask(life, CreateStream(path="a", content_type=media.JSON, ttl_s=1))
    tail = life.engine.views.by_id(1)
    assert tail is not None
    life.loop.run_for((tail.deadline_ms - life.loop.now_ms()) * 1000 - 1500)
    # The loop is busy, so the writer learns of the reader only when the deadline has passed.
    life.loop.call_soon(life.engine.touch, tail)
    for _ in range(40):
        life.loop.call_soon(lambda: None)
    life.loop.run_for(0)
    assert life.loop.now_ms() > 1_000_000
    assert life.machine.streams.by_id[1].deadline_ms == tail.deadline_ms
    assert isinstance(ask(life, Append("a", media.JSON, batch(TAG))), Added)
