"""Pages: the same bytes from memory and from disk, through any line of forks."""

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO
from millstream.core.streams.commands import CreateStream, ForkRequest
from millstream.engine import pages
from millstream.engine.forking import resolve
from millstream.engine.opening import EngineOptions
from millstream.storage.damage import DataDamaged
from millstream.testing.files_memory import MemoryDisk
from tests.support.engines import SMALL, StandingClock, opened
from tests.support.machines import JSON, body
from tests.support.reading import ALL, append, create, find, fork, read, text

pytestmark = pytest.mark.anyio

HOT, COLD = SMALL, SMALL._replace(hot_bytes_max=1)


@pytest.mark.parametrize("sizes", [HOT, COLD], ids=["hot", "cold"])
class TestBothWays:
    async def test_messages_come_in_order_from_any_position(self, sizes: EngineOptions) -> None:
        async with opened(MemoryDisk().files, sizes=sizes) as directory:
            engine = directory.engine
            await create(engine, "a", b"1", b"2", b"3")
            assert await read(engine, "a") == ([b"1", b"2", b"3"], 3)
            assert await read(engine, "a", 2) == ([b"3"], 3)
            assert await read(engine, "a", 3) == ([], 3)
            assert (engine.cold_reads > 0) is (sizes is COLD)

    async def test_a_page_ends_by_bytes_but_has_at_least_one_append(
        self, sizes: EngineOptions
    ) -> None:
        async with opened(MemoryDisk().files, sizes=sizes) as directory:
            engine = directory.engine
            await create(engine, "a", *[b"x" * 100] * 5)
            assert await read(engine, "a", 0, 1) == ([b"x" * 100], 1)
            parts, end = await read(engine, "a", 1, 300)
            assert (len(parts), end) == (2, 3)

    async def test_a_page_ends_by_count_also_inside_an_append(self, sizes: EngineOptions) -> None:
        async with opened(MemoryDisk().files, sizes=sizes) as directory:
            engine = directory.engine
            await create(engine, "a", content_type=JSON)
            await append(engine, "a", b"1", b"22", b"333", b"4444", content_type=JSON)
            await append(engine, "a", b"5", content_type=JSON)
            assert await read(engine, "a", 0, ALL, 2) == ([b"1,22"], 2)
            assert await read(engine, "a", 2, ALL, 1) == ([b"333"], 3)
            assert await read(engine, "a", 1, ALL, 2) == ([b"22,333"], 3)
            assert await read(engine, "a", 3) == ([b"4444", b"5"], 5)

    async def test_messages_come_one_by_one_each_with_its_own_index_and_time(
        self, sizes: EngineOptions
    ) -> None:
        clock = StandingClock()
        async with opened(MemoryDisk().files, clock, sizes=sizes) as directory:
            engine = directory.engine
            began = clock.value_ms
            await create(engine, "a", content_type=JSON)
            await append(engine, "a", b"1", b"[2,2]", b'"3,3"', content_type=JSON)
            await fork(engine, "f", "a", 2)
            for path in ("a", "f"):
                clock.value_ms += 5
                await append(engine, path, b"4", b"55", content_type=JSON)
            every = {
                "a": [(0, b"1"), (0, b"[2,2]"), (0, b'"3,3"'), (5, b"4"), (5, b"55")],
                "f": [(0, b"1"), (0, b"[2,2]"), (10, b"4"), (10, b"55")],
            }
            for path, rows in every.items():
                wanted = [(began + t, i, data) for i, (t, data) in enumerate(rows, 1)]
                tail = find(engine, path)
                for index in range(len(wanted) + 1):
                    for count in (1, 2, 3, ALL):
                        found = await engine.read_messages(tail, index, ALL, count)
                        assert found == wanted[index : index + count]

    async def test_forks_read_through_their_sources(self, sizes: EngineOptions) -> None:
        async with opened(MemoryDisk().files, sizes=sizes) as directory:
            engine = directory.engine
            await create(engine, "a", b"1", b"2", b"3", b"4", b"5")
            await fork(engine, "b", "a", 5)
            await append(engine, "b", b"6b")
            await fork(engine, "c", "b", 3)
            await append(engine, "c", b"4c")
            await append(engine, "a", b"6a")
            await fork(engine, "d", "c", 4)
            await append(engine, "d", b"5d")
            assert await text(engine, "a") == b"123456a"
            assert await text(engine, "b") == b"123456b"
            assert await text(engine, "c") == b"1234c"
            assert await text(engine, "d") == b"1234c5d"
            assert [await text(engine, "c", index) for index in range(5)] == [
                b"1234c",
                b"234c",
                b"34c",
                b"4c",
                b"",
            ]
            assert await read(engine, "d", 1, ALL, 3) == ([b"2", b"3", b"4c"], 4)

    async def test_a_fork_inside_an_append_shows_only_its_part(self, sizes: EngineOptions) -> None:
        async with opened(MemoryDisk().files, sizes=sizes) as directory:
            engine = directory.engine
            await create(engine, "a", content_type=JSON)
            await append(engine, "a", b"1", b"2", b"3", content_type=JSON)
            await fork(engine, "f", "a", 0, sub=2)
            await append(engine, "f", b"9", content_type=JSON)
            assert await read(engine, "f") == ([b"1,2", b"9"], 3)


async def test_cold_reads_equal_hot_ones_while_old_bytes_cool() -> None:
    messages = [b"%d:" % number + b"x" * (number * 37 % 90) for number in range(300)]
    async with opened(MemoryDisk().files, sizes=SMALL._replace(hot_bytes_max=2_000)) as directory:
        engine = directory.engine
        await create(engine, "a")
        for count, message in enumerate(messages, 1):
            await append(engine, "a", message)
            if count % 50 == 0:
                assert await text(engine, "a") == b"".join(messages[:count])
        tail = find(engine, "a")
        assert engine.views.hot_bytes <= 2_000
        assert engine.read_hot(tail, 0, ALL, ALL) is None
        page = engine.read_hot(tail, 295, ALL, ALL)
        assert page is not None
        assert b"".join(page.parts) == b"".join(messages[295:])


async def test_a_page_from_disk_is_kept_small_whatever_was_asked_for() -> None:
    message = b"x" * 300_000
    async with opened(MemoryDisk().files, sizes=COLD) as directory:
        engine = directory.engine
        await create(engine, "a", *[message] * 6)
        parts, end = await read(engine, "a")
        assert (parts, end) == ([message] * 4, 4)
        assert await read(engine, "a", end) == ([message] * 2, 6)


async def test_two_appends_in_one_frame_are_told_apart() -> None:
    """A fork inside a message that is created with a body adds the part and the body at once."""
    async with opened(MemoryDisk().files, sizes=COLD) as directory:
        engine = directory.engine
        await create(engine, "a", b"hello")
        request = ForkRequest("a", ZERO, 2)
        point = await resolve(engine, request)
        await engine.ask(
            CreateStream(
                path="f", content_type=None, body=body(b"lp"), fork=point, fork_request=request
            )
        )
        assert await read(engine, "f") == ([b"he", b"lp"], 2)
        assert await read(engine, "f", 1) == ([b"lp"], 2)


async def test_bytes_that_do_not_check_out_are_never_served() -> None:
    memory = MemoryDisk()
    async with opened(memory.files, sizes=COLD) as directory:
        engine = directory.engine
        await create(engine, "a", b"precious")
        path = "data/log/0000000000000001.log"
        memory.flip(path, memory.content(path).index(b"precious"), 1)
        page = await engine.read(find(engine, "a"), 0, ALL, ALL)
        assert isinstance(page, Refused)
        assert page.code is Code.DATA_DAMAGED


async def test_a_frame_of_another_stream_is_not_taken_for_ours() -> None:
    async with opened(MemoryDisk().files, sizes=COLD) as directory:
        engine = directory.engine
        tail = await create(engine, "a", b"ours")
        await create(engine, "b", b"theirs")
        found = pages.plan(tail, 0, ALL, ALL)
        other = pages.plan(find(engine, "b"), 0, ALL, ALL).pieces[0]
        swapped = found._replace(pieces=[found.pieces[0]._replace(place=other.place)])
        # The frames differ in length, or hold another stream's message: either way an error.
        with pytest.raises((LookupError, DataDamaged)):
            pages.fetch(swapped, directory.log.read)


async def test_the_short_way_to_a_hot_page_leads_to_the_same_page() -> None:
    async with opened(MemoryDisk().files) as directory:
        engine = directory.engine
        await create(engine, "a", content_type=JSON)
        for count in (1, 3, 1, 1, 4, 2):
            await append(engine, "a", *[b"7" * count] * count, content_type=JSON)
        await fork(engine, "f", "a", 5)
        await append(engine, "f", b"8", b"9", content_type=JSON)
        answered = 0
        for path in ("a", "f"):
            tail = find(engine, path)
            for index in range(tail.index + 1):
                for count_max in (1, 2, 3, 4, 5, 6, 7, ALL):
                    for bytes_max in (1, 60, 100, 150, 250, ALL):
                        page = pages.hot_page(tail, index, bytes_max, count_max)
                        found = pages.plan(tail, index, bytes_max, count_max)
                        if page is not None:
                            answered += 1
                            assert page == pages.assemble(found, is_json=True)
        assert answered > 100
        assert pages.hot_page(find(engine, "a"), 0, ALL, ALL) is not None
        assert pages.hot_page(find(engine, "f"), 0, ALL, ALL) is None


async def test_the_short_way_is_not_taken_to_what_has_cooled() -> None:
    async with opened(MemoryDisk().files) as directory:
        tail = await create(directory.engine, "a", b"1", b"2", b"3")
        tail.cool()
        assert pages.hot_page(tail, 0, ALL, ALL) is None
        assert pages.hot_page(tail, 1, ALL, ALL) == pages.Page([b"2", b"3"], 3)
