"""The engine: durable answers, live views, deadlines; and how it ends."""

import asyncio
import errno

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.events import Event
from millstream.core.streams.commands import (
    Added,
    Append,
    CreateStream,
    DeleteStream,
    TouchStream,
)
from millstream.engine.engine import EXPIRY_RETRY_MS
from millstream.testing.files_memory import MemoryDisk
from tests.support.engines import SMALL, Bench, StandingClock, opened, watching
from tests.support.logs import start
from tests.support.machines import TEXT, body
from tests.support.reading import append, create, find, fork, text

pytestmark = pytest.mark.anyio

CREATE = CreateStream(path="a", content_type=TEXT)
APPEND = Append("a", TEXT, body(b"x"))


def code(found: object) -> Code:
    assert isinstance(found, Refused), found
    return found.code


async def settle() -> None:
    """Let everything that is scheduled run."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_nothing_is_visible_before_its_sync() -> None:
    memory = MemoryDisk()
    seen: list[tuple[int, bool]] = []
    async with opened(memory.files) as directory:
        engine = directory.engine
        tail = await create(engine, "a", b"1")
        tail.watch(lambda: seen.append((tail.index, True)))

        def look(kind: str) -> None:
            # Called on the log's thread, between write and sync and right behind the sync.
            if kind == "write":
                seen.append((tail.index, tail.is_closed))

        with watching(memory, look):
            await engine.ask(Append("a", TEXT, body(b"2"), is_closing=True))
    before = seen[: seen.index((2, True))]
    assert set(before) == {(1, False)}


async def test_a_new_stream_is_not_found_before_its_sync() -> None:
    memory = MemoryDisk()
    found: list[tuple[str, object]] = []
    async with opened(memory.files) as directory:
        engine = directory.engine
        await create(engine, "other")
        with watching(memory, lambda kind: found.append((kind, engine.find("a")))):
            await engine.ask(CreateStream(path="a", content_type=TEXT))
        # Files are prepared and marks are written meanwhile; between write and sync it counts.
        written = [answer for kind, answer in found if kind == "write"]
        assert code(written[0]) is Code.STREAM_NOT_FOUND
        find(engine, "a")


async def test_watchers_are_told_once_a_batch() -> None:
    async with opened(MemoryDisk().files) as directory:
        engine = directory.engine
        tail = await create(engine, "a")
        calls: list[int] = []
        tail.watch(lambda: calls.append(tail.index))
        commands = [engine.ask(Append("a", TEXT, body(b"x"))) for _ in range(5)]
        await asyncio.gather(*commands)
        assert calls == [5]
        assert (engine.appended_messages, engine.appended_bytes) == (5, 5)


async def test_observers_see_every_event_but_appends_once_it_is_visible() -> None:
    async with opened(MemoryDisk().files) as directory:
        engine = directory.engine
        seen: list[tuple[str, bool]] = []

        def observer(event: Event) -> None:
            seen.append((type(event).__name__, engine.views.by_id(1) is not None))

        def broken(_: Event) -> None:
            raise ValueError("an observer's own trouble")

        engine.observe(broken)
        engine.observe(observer)
        await create(engine, "a", b"x")
        await engine.ask(DeleteStream("a"))
    assert seen == [("StreamCreated", True), ("StreamRemoved", False)]


async def test_an_answer_nobody_waits_for_any_more_is_dropped() -> None:
    async with opened(MemoryDisk().files) as directory:
        engine = directory.engine
        engine.ask(CreateStream(path="a", content_type=TEXT)).cancel()
        await create(engine, "b")
        find(engine, "a")


class TestDeadlines:
    async def test_a_stream_goes_when_its_time_is_over(self) -> None:
        clock = StandingClock()
        async with opened(MemoryDisk().files, clock) as directory:
            engine = directory.engine
            await engine.ask(CreateStream(path="a", content_type=TEXT, ttl_s=10))
            clock.value_ms += 9_999
            find(engine, "a")
            clock.value_ms += 1
            assert code(engine.find("a")) is Code.STREAM_NOT_FOUND
            engine.timers.fire()
            await create(engine, "other")
            assert len(engine.views) == 1

    async def test_a_reader_keeps_it_alive(self) -> None:
        clock = StandingClock()
        async with opened(MemoryDisk().files, clock) as directory:
            engine = directory.engine
            await engine.ask(CreateStream(path="a", content_type=TEXT, ttl_s=10))
            for _ in range(5):
                clock.value_ms += 9_000
                engine.touch(find(engine, "a"))
                engine.timers.fire()
                await create(engine, f"{clock.value_ms}")
            find(engine, "a")
            assert isinstance(await append(engine, "a", b"x"), Added)

    async def test_it_goes_also_when_its_last_reader_was_decided_a_little_later(self) -> None:
        """The machine's deadline is then behind the one that the timer knows of."""
        clock = StandingClock()
        async with opened(MemoryDisk().files, clock) as directory:
            engine = directory.engine
            await engine.ask(CreateStream(path="a", content_type=TEXT, ttl_s=10))
            clock.value_ms += 1_000
            engine.touch(find(engine, "a"))
            clock.value_ms += 5
            await create(engine, "other")
            for milliseconds in (8_995, 1_000, EXPIRY_RETRY_MS):
                clock.value_ms += milliseconds
                engine.timers.fire()
                await append(engine, "other", b"x")
            assert len(engine.views) == 1

    async def test_a_touch_of_a_stream_without_ttl_is_nothing(self) -> None:
        async with opened(MemoryDisk().files) as directory:
            engine = directory.engine
            tail = await create(engine, "a")
            engine.touch(tail)
            assert engine.writer.waiting == 0

    async def test_after_a_restart_deadlines_go_on(self) -> None:
        memory, clock = MemoryDisk(), StandingClock()
        async with opened(memory.files, clock) as directory:
            await directory.engine.ask(CreateStream(path="a", content_type=TEXT, ttl_s=80))
            clock.value_ms += 40_000
            directory.engine.touch(find(directory.engine, "a"))
            await create(directory.engine, "b")
        async with opened(memory.files, clock) as directory:
            engine = directory.engine
            clock.value_ms += 79_999
            find(engine, "a")
            clock.value_ms += 10_001
            engine.timers.fire()
            await append(engine, "b", b"x")
            assert [tail.path for tail in engine.views.all()] == ["b"]

    async def test_an_expired_source_keeps_its_bytes_for_its_fork(self) -> None:
        clock = StandingClock()
        async with opened(MemoryDisk().files, clock) as directory:
            engine = directory.engine
            await engine.ask(
                CreateStream(
                    path="a", content_type=TEXT, body=body(b"old"), expires_at_ms=clock.value_ms + 5
                )
            )
            await engine.ask(CreateStream(path="keep", content_type=TEXT))
            await fork(engine, "f", "a", None)
            tail = find(engine, "f")
            tail.deadline_ms = directory.machine.streams.by_path["f"].deadline_ms = 0
            clock.value_ms += 5
            engine.timers.fire()
            await settle()
            await create(engine, "a", b"new")
            assert await text(engine, "f") == b"old"
            assert await text(engine, "a") == b"new"


class TestFailure:
    async def test_reads_go_on_and_writes_are_refused_after_a_failed_sync(self) -> None:
        memory = MemoryDisk()
        async with opened(memory.files, sizes=SMALL._replace(hot_bytes_max=1)) as directory:
            engine = directory.engine
            tail = await create(engine, "a", b"durable")
            memory.fail("write", 1, errno.EIO)
            assert code(await append(engine, "a", b"lost")) is Code.STORAGE_FAILED
            assert code(await append(engine, "a", b"later")) is Code.STORAGE_FAILED
            assert tail.index == 1
            assert await text(engine, "a") == b"durable"
        memory.heal()
        async with opened(memory.files) as directory:
            assert (await text(directory.engine, "a")).startswith(b"durable")
            assert isinstance(await append(directory.engine, "a", b"again"), Added)


class TestStop:
    async def test_what_was_taken_is_answered_and_later_commands_are_refused(self) -> None:
        async with opened(MemoryDisk().files) as directory:
            engine = directory.engine
            taken = engine.ask(CreateStream(path="a", content_type=TEXT))
            await engine.stop(10)
            assert not isinstance(await taken, Refused)
            late = await engine.ask(DeleteStream("a"))
            assert code(late) is Code.STOPPING

    async def test_a_stop_with_only_commands_that_write_nothing_ends(self) -> None:
        async with opened(MemoryDisk().files) as directory:
            engine = directory.engine
            await create(engine, "a")
            engine.submit(TouchStream(99))
            await asyncio.wait_for(engine.stop(10), 1)

    async def test_the_end_of_the_log_is_marked(self) -> None:
        memory = MemoryDisk()
        async with opened(memory.files) as directory:
            await create(directory.engine, "a", b"x")
        assert start(memory.files, file_bytes=1 << 16).recovered.lsn_proven == 2

    async def test_a_quiet_log_is_marked_without_being_asked(self) -> None:
        memory = MemoryDisk()
        marked = asyncio.Event()
        async with opened(memory.files) as directory:
            engine = directory.engine
            await create(engine, "a")
            engine.on_batch = lambda _: marked.set()
            await asyncio.wait_for(marked.wait(), 5)
            assert engine.writer.durable_lsn == 2


class TestMarks:
    """On a writer whose disk waits to be let go."""

    def test_a_quiet_log_proves_its_last_batch_once(self) -> None:
        bench = Bench()
        bench.do("create", CREATE)
        bench.writer.mark()
        bench.disk.release()
        bench.writer.mark()
        assert bench.disk.held == []
        assert bench.frames() == [(1, 0, ["StreamCreated"]), (2, 1, [])]
        assert bench.writer.durable_lsn == 2

    def test_the_next_batch_goes_on_behind_the_mark(self) -> None:
        bench = Bench()
        bench.do("create", CREATE)
        bench.writer.mark()
        bench.disk.release()
        bench.do("append", APPEND)
        assert [frame[:2] for frame in bench.frames()] == [(1, 0), (2, 1), (3, 2)]

    def test_a_busy_log_is_not_marked(self) -> None:
        bench = Bench()
        bench.submit("create", CREATE)
        bench.writer.mark()
        bench.turn()
        bench.writer.mark()
        assert len(bench.disk.held) == 1
        bench.disk.release()
        assert bench.disk.held == []

    def test_a_new_log_needs_no_mark(self) -> None:
        bench = Bench()
        bench.writer.mark()
        assert bench.disk.held == []

    def test_what_comes_during_a_mark_waits_for_it(self) -> None:
        bench = Bench()
        bench.do("create", CREATE)
        bench.writer.mark()
        bench.submit("append", APPEND)
        bench.turn()
        assert "append" not in bench.answers
        bench.disk.release()
        bench.disk.release()
        assert isinstance(bench.answers["append"], Added)


class TestQuiet:
    def test_quiet_is_told_when_the_last_answer_is_out(self) -> None:
        bench = Bench()
        told: list[int] = []
        bench.writer.on_idle = lambda: told.append(len(bench.answers))
        bench.submit("create", CREATE)
        bench.turn()
        bench.submit("append", APPEND)
        bench.turn()
        bench.disk.release()
        assert told == []
        bench.disk.release()
        assert told == [2]

    def test_quiet_is_told_also_when_the_last_commands_write_nothing(self) -> None:
        bench = Bench()
        told: list[bool] = []
        bench.submit("touch", TouchStream(99))
        bench.writer.on_idle = lambda: told.append(True)
        bench.turn()
        assert told == [True]
