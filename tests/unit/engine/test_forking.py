"""Where exactly a fork leaves its source, worked out before the command is given."""

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO, Position
from millstream.core.streams.commands import Created, DeleteStream, ForkPoint, ForkRequest
from millstream.engine.forking import resolve
from millstream.testing.files_memory import MemoryDisk
from tests.support.engines import SMALL, StandingClock, opened
from tests.support.machines import JSON, START_MS
from tests.support.reading import append, create, find, fork, text

pytestmark = pytest.mark.anyio


async def point_of(request: ForkRequest, content_type: str = "text/plain") -> ForkPoint | Refused:
    """Resolve against a stream `a` with `hello` and `world`, a second apart."""
    clock = StandingClock()
    async with opened(MemoryDisk().files, clock) as directory:
        engine = directory.engine
        await create(engine, "a", content_type=content_type)
        for messages in (
            ((b"1", b"22", b"333"), (b"4",))
            if content_type == JSON
            else (
                (b"hello",),
                (b"world",),
            )
        ):
            await append(engine, "a", *messages, content_type=content_type)
            clock.value_ms += 1000
        return await resolve(engine, request)


def base_of(point: ForkPoint | Refused) -> tuple[Position, bytes]:
    assert isinstance(point, ForkPoint), point
    return point.base, point.prefix


def field_of(point: ForkPoint | Refused) -> str | None:
    assert isinstance(point, Refused), point
    assert point.code is Code.FORK_INVALID
    return point.field


FIRST, SECOND = Position(START_MS, 1), Position(START_MS + 1000, 2)


async def test_without_an_offset_it_is_the_tail() -> None:
    assert base_of(await point_of(ForkRequest("a", None, 0))) == (SECOND, b"")


@pytest.mark.parametrize("anchor", [ZERO, FIRST, SECOND])
async def test_an_offset_of_the_source_is_taken(anchor: Position) -> None:
    assert base_of(await point_of(ForkRequest("a", anchor, 0))) == (anchor, b"")


@pytest.mark.parametrize("anchor", [Position(START_MS + 1000, 3), Position(START_MS + 1, 1)])
async def test_an_offset_that_the_source_never_gave_out_is_not(anchor: Position) -> None:
    assert field_of(await point_of(ForkRequest("a", anchor, 0))) == "Stream-Fork-Offset"


async def test_a_moment_stands_for_the_position_before_the_first_message_since() -> None:
    request = ForkRequest("a", Position(START_MS + 1, 0), 0)
    assert base_of(await point_of(request)) == (FIRST, b"")


@pytest.mark.parametrize(
    "sub, expected", [(1, (ZERO, b"h")), (4, (ZERO, b"hell")), (5, (FIRST, b""))]
)
async def test_bytes_past_the_offset_are_a_part_of_the_next_message(
    sub: int, expected: tuple[Position, bytes]
) -> None:
    assert base_of(await point_of(ForkRequest("a", ZERO, sub))) == expected


async def test_more_bytes_than_the_next_message_has_are_refused() -> None:
    assert field_of(await point_of(ForkRequest("a", ZERO, 6))) == "Stream-Fork-Sub-Offset"


async def test_behind_the_tail_there_is_nothing_to_count() -> None:
    assert field_of(await point_of(ForkRequest("a", SECOND, 1))) == "Stream-Fork-Sub-Offset"


@pytest.mark.parametrize("sub", [1, 2, 3])
async def test_json_counts_messages_within_one_append(sub: int) -> None:
    found = base_of(await point_of(ForkRequest("a", ZERO, sub), JSON))
    assert found == (Position(START_MS, sub), b"")


async def test_json_does_not_count_into_the_next_append() -> None:
    assert field_of(await point_of(ForkRequest("a", ZERO, 4), JSON)) == "Stream-Fork-Sub-Offset"


async def test_a_source_that_is_not_there_or_deleted_is_told_apart() -> None:
    async with opened(MemoryDisk().files) as directory:
        engine = directory.engine
        missing = await resolve(engine, ForkRequest("a", None, 0))
        assert isinstance(missing, Refused)
        assert (missing.code, missing.field) == (Code.SOURCE_NOT_FOUND, "Stream-Forked-From")
        await create(engine, "a", b"x")
        await fork(engine, "f", "a", None)
        await engine.ask(DeleteStream("a"))
        gone = await resolve(engine, ForkRequest("a", None, 0))
        assert isinstance(gone, Refused)
        assert gone.code is Code.SOURCE_GONE


async def test_a_damaged_message_is_not_forked() -> None:
    memory = MemoryDisk()
    async with opened(memory.files, sizes=SMALL._replace(hot_bytes_max=1)) as directory:
        await create(directory.engine, "a", b"precious")
        path = "data/log/0000000000000001.log"
        memory.flip(path, memory.content(path).index(b"precious"), 1)
        found = await resolve(directory.engine, ForkRequest("a", ZERO, 3))
        assert isinstance(found, Refused)
        assert found.code is Code.DATA_DAMAGED


async def test_parts_of_messages_compose_over_forks() -> None:
    async with opened(MemoryDisk().files) as directory:
        engine = directory.engine
        await create(engine, "a", b"hello", b"world")
        assert isinstance(await fork(engine, "b", "a", 1, sub=3), Created)
        await append(engine, "b", b"!")
        assert isinstance(await fork(engine, "c", "b", 1, sub=2), Created)
        await append(engine, "c", b"?")
        assert await text(engine, "b") == b"hellowor!"
        assert await text(engine, "c") == b"hellowo?"
        assert find(engine, "c").index == 3
