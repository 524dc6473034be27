"""Opening and closing a data directory, and every way in which that can go wrong."""

import asyncio
import errno
import functools

import pytest

from millstream.core.errors import Refused
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Added, Append, CreateStream, DeleteStream, Duplicate
from millstream.engine import disk as disk_module
from millstream.engine.opening import EngineOptions, open_directory
from millstream.storage.damage import DataDamaged, DirectoryLocked
from millstream.testing.files_memory import MemoryDisk
from tests.support.engines import DATA, SMALL, StandingClock, opened
from tests.support.machines import TEXT, body
from tests.support.reading import append, create, find, fork, text

pytestmark = pytest.mark.anyio

LOG_FILE = "data/log/0000000000000001.log"


async def test_a_new_directory_is_made_and_opens_empty() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        assert len(directory.engine.views) == 0
        assert directory.engine.writer.durable_lsn == 0
    assert memory.files.listdir(DATA)[:2] == ["LOCK", "log"]


async def test_what_was_answered_is_there_after_a_clean_stop() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        await create(directory.engine, "a", b"1", b"2")
        offset = find(directory.engine, "a").offset
    async with opened(memory.files) as directory:
        assert await text(directory.engine, "a") == b"12"
        assert find(directory.engine, "a").offset == offset


async def test_a_clean_stop_leaves_nothing_to_replay() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        await create(directory.engine, "a", b"1")
    async with opened(memory.files) as directory:
        assert directory.keeper.snapshot_lsn == directory.engine.writer.durable_lsn == 3


async def test_nothing_new_needs_no_new_snapshot() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        await create(directory.engine, "a")
    before = memory.files.listdir("data/snapshots")
    async with opened(memory.files):
        pass
    assert memory.files.listdir("data/snapshots") == before


async def test_after_a_kill_a_retry_is_a_duplicate_with_its_own_offset() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        engine = directory.engine
        await create(engine, "a")
        for seq in range(4):
            claim = Claim("p", 0, seq)
            await engine.ask(Append("a", TEXT, body(b"x", b"y"), claim=claim))
        killed = memory.kill()
    async with opened(killed.files) as directory:
        claim = Claim("p", 0, 2)
        answer = await directory.engine.ask(Append("a", TEXT, body(b"x"), claim=claim))
        assert answer == Duplicate(1, 6, claim, 3, is_closed=False)
        assert len(await text(directory.engine, "a")) == 8


@pytest.mark.parametrize("state", range(12))
async def test_after_a_power_loss_every_answer_still_holds(state: int) -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        engine = directory.engine
        await create(engine, "a", b"1", b"2", b"3")
        await fork(engine, "f", "a", 2)
        await append(engine, "f", b"x")
        await engine.ask(DeleteStream("a"))
        states = list(memory.crash_states(12, seed=1))
    if state >= len(states):
        return
    async with opened(states[state].files) as directory:
        assert await text(directory.engine, "f") == b"12x"
        assert isinstance(directory.engine.find("a"), Refused)
        assert isinstance(await append(directory.engine, "f", b"y"), Added)


async def test_two_servers_cannot_have_one_directory() -> None:
    memory = MemoryDisk()
    async with opened(memory.files):
        with pytest.raises(DirectoryLocked):
            await open_directory(DATA, SMALL, memory.files, StandingClock())
    async with opened(memory.files):
        pass


async def test_a_damaged_directory_is_refused_and_let_go_of() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        await create(directory.engine, "a", b"precious")
    for name in snapshots(memory):
        memory.files.unlink(f"data/snapshots/{name}")
    memory.flip(LOG_FILE, memory.content(LOG_FILE).index(b"precious"), 1)
    for _ in range(2):
        with pytest.raises(DataDamaged, match=LOG_FILE):
            await open_directory(DATA, SMALL, memory.files, StandingClock())


async def test_a_torn_tail_is_cut_and_the_start_goes_on() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        await create(directory.engine, "a", b"whole")
        place = directory.log.plan(0).position
        killed = memory.kill()
    content = bytearray(killed.content(LOG_FILE))
    content[place : place + 40] = b"\x63" * 40
    killed.replace(LOG_FILE, bytes(content))
    async with opened(killed.files) as directory:
        assert await text(directory.engine, "a") == b"whole"
        assert isinstance(await append(directory.engine, "a", b"!"), Added)


async def test_after_a_failed_write_no_snapshot_is_taken() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        engine = directory.engine
        await create(engine, "a")
        memory.fail("write", 1, errno.EIO)
        assert isinstance(await append(engine, "a", b"x"), Refused)
        memory.heal()
    assert snapshots(memory) == []


async def test_a_snapshot_that_cannot_be_written_does_not_spoil_the_stop() -> None:
    memory = MemoryDisk()
    async with opened(memory.files) as directory:
        await create(directory.engine, "a", b"x")
        await directory.engine.stop(10)
        memory.fail("create", 1, errno.ENOSPC, sticky=True)
    memory.heal()
    async with opened(memory.files) as directory:
        assert await text(directory.engine, "a") == b"x"


async def test_a_stop_on_a_full_disk_ends_and_keeps_nothing_that_is_not_durable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The machine is then ahead of the disk: its state must not become a snapshot."""
    monkeypatch.setattr(disk_module, "RETRY_S", 0.01)
    memory = MemoryDisk()
    memory.fail("allocate", 2, errno.ENOSPC, sticky=True)
    sizes = EngineOptions(log_file_bytes=8192, hot_bytes_max=1 << 20, stop_ms=50)
    answered: list[str] = []

    def note(name: str, answer: object) -> None:
        if not isinstance(answer, Refused):
            answered.append(name)

    async with asyncio.timeout(10):
        async with opened(memory.files, sizes=sizes) as directory:
            engine = directory.engine
            # Without messages nothing is refused for lack of room, until the file is used up.
            for number in range(200):
                name = f"stream {number}"
                command = CreateStream(path=name, content_type=TEXT)
                engine.submit(command, functools.partial(note, name))
                await asyncio.sleep(0)
    assert snapshots(memory) == []
    memory.heal()
    async with opened(memory.files, sizes=sizes) as directory:
        found = {tail.path for tail in directory.engine.views.all()}
        assert set(answered) <= found
        await create(directory.engine, "again", b"x")


async def test_a_disk_that_never_answers_leaves_no_snapshot_of_what_it_did_not_confirm() -> None:
    memory = MemoryDisk()
    async with opened(memory.files, sizes=SMALL._replace(stop_ms=20)) as directory:
        engine = directory.engine
        await create(engine, "a", b"1")
        directory.disk._call_soon = lambda _: None
        waiting = engine.ask(Append("a", TEXT, body(b"2")))
        await asyncio.sleep(0)
    assert not waiting.done()
    assert snapshots(memory) == []
    async with opened(memory.files) as directory:
        assert (await text(directory.engine, "a")).startswith(b"1")
        assert isinstance(await append(directory.engine, "a", b"3"), Added)


def snapshots(memory: MemoryDisk) -> list[str]:
    if "snapshots" not in memory.files.listdir(DATA):
        return []
    return [name for name in memory.files.listdir("data/snapshots") if name.endswith(".snap")]
