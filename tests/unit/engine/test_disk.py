"""The log's threads: writes in order, errors handed on, a full disk that only delays."""

import asyncio
import contextlib
import errno
import threading
from collections.abc import AsyncIterator

import pytest

from millstream.engine import disk as disk_module
from millstream.engine.disk import ThreadedDisk
from millstream.storage.damage import LogFailed
from millstream.testing.files_memory import MemoryDisk
from tests.support.engines import watching
from tests.support.logs import frame, start

pytestmark = pytest.mark.anyio

FILE_BYTES = 4096


class Desk:
    """A disk on threads over a log in memory."""

    def __init__(self, memory: MemoryDisk) -> None:
        self.memory = memory
        self.log = start(memory.files, file_bytes=FILE_BYTES).log
        self.loop = asyncio.get_running_loop()
        self.disk = ThreadedDisk(self.log, self.loop.call_soon_threadsafe)
        self.lsn = 0

    def write(self, size: int = 10) -> asyncio.Future[BaseException | None]:
        """Write one frame with that much data; the future has the error."""
        self.lsn += 1
        data = frame(self.lsn, b"x" * size)
        done: asyncio.Future[BaseException | None] = self.loop.create_future()
        self.disk.write([data], self.disk.plan(len(data)), done.set_result)
        return done

    async def until_next_is_ready(self) -> None:
        ready = asyncio.Event()

        def look(kind: str) -> None:
            if kind == "sync":
                self.loop.call_soon_threadsafe(ready.set)

        with watching(self.memory, look):
            while not self.log.is_next_ready:
                ready.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(ready.wait(), 0.05)


@contextlib.asynccontextmanager
async def running(memory: MemoryDisk) -> AsyncIterator[Desk]:
    desk = Desk(memory)
    desk.disk.start()
    try:
        yield desk
    finally:
        await asyncio.to_thread(desk.disk.stop)


async def test_a_written_batch_is_stable_when_done_is_called() -> None:
    memory = MemoryDisk()
    async with running(memory) as desk:
        assert await desk.write() is None
        stable = next(memory.crash_states(1))
        assert [lsn for lsn, _ in start(stable.files, file_bytes=FILE_BYTES).frames] == [1]


async def test_done_is_called_on_the_event_loop() -> None:
    async with running(MemoryDisk()) as desk:
        called: asyncio.Future[int] = desk.loop.create_future()
        data = frame(1, b"x")
        place = desk.disk.plan(len(data))
        desk.disk.write([data], place, lambda _: called.set_result(threading.get_ident()))
        assert await called == threading.get_ident()


async def test_files_are_rolled_and_the_next_one_made_ready() -> None:
    memory = MemoryDisk()
    async with running(memory) as desk:
        for _ in range(12):
            assert await desk.write(1000) is None
        await desk.until_next_is_ready()
        names = memory.files.listdir("data/log")
        assert [name for name in names if name.endswith(".log")] == [
            f"{number:016d}.log" for number in (1, 2, 3, 4)
        ]


async def test_the_first_error_is_handed_on_and_every_later_write_fails() -> None:
    memory = MemoryDisk()
    async with running(memory) as desk:
        assert await desk.write() is None
        memory.fail("sync", 1, errno.EIO)
        # The sync that fails may be the one of the next file; then this is the second write.
        errors = [await desk.write() for _ in range(2)]
        if errors == [None, None]:
            memory.fail("write", 1, errno.EIO)
            errors.append(await desk.write())
        assert isinstance(errors[-1], LogFailed)
        memory.heal()
        assert isinstance(await desk.write(), LogFailed)


async def test_no_room_for_the_next_file_is_told_and_heals() -> None:
    memory = MemoryDisk()
    memory_ready = MemoryDisk()
    async with running(memory_ready) as desk:
        await desk.until_next_is_ready()
        assert desk.disk.has_room(10 * FILE_BYTES)
    desk = Desk(memory)
    memory.fail("allocate", 1, errno.ENOSPC, sticky=True)
    desk.disk._prepare()
    assert "No space left" in str(desk.disk.prepare_error)
    assert desk.disk.has_room(100)
    assert not desk.disk.has_room(FILE_BYTES)
    memory.heal()
    desk.disk._prepare()
    assert desk.disk.prepare_error is None
    assert desk.disk.has_room(FILE_BYTES)


async def test_a_roll_waits_for_room_and_breaks_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_module, "RETRY_S", 0.005)
    memory = MemoryDisk()
    memory.fail("allocate", 2, errno.ENOSPC, sticky=True)
    refused = asyncio.Event()
    async with running(memory) as desk:
        for _ in range(3):
            assert await desk.write(1000) is None

        def look(kind: str) -> None:
            if kind == "unlink":
                desk.loop.call_soon_threadsafe(refused.set)

        with watching(memory, look):
            waiting = desk.write(1000)
            await refused.wait()
            assert not waiting.done()
            memory.heal()
            assert await waiting is None


async def test_a_stop_does_not_wait_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryDisk()
    memory.fail("allocate", 2, errno.ENOSPC, sticky=True)
    async with running(memory) as desk:
        for _ in range(3):
            assert await desk.write(1000) is None
        waiting = desk.write(1000)
    assert isinstance(await waiting, LogFailed)
