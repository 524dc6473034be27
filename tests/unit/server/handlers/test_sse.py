import asyncio
import itertools

import pytest

from tests.support.doors import Door, Recorder, open_door

pytestmark = pytest.mark.anyio
A = "/v1/stream/a"


def follow(door: Door, query: str = "offset=-1") -> Recorder:
    return door.begin("GET", f"{A}?live=sse&{query}")


def kinds(reply: Recorder) -> list[str]:
    lines = b"".join(reply.tape.written).decode().splitlines()
    return [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]


def messages(reply: Recorder) -> bytes:
    """All bytes of the stream that the reader was given."""
    events = b"".join(reply.tape.written).split(b"\n\n")
    data = [event for event in events if event.startswith(b"event: data\n")]
    return b"".join(line[5:] for event in data for line in event.split(b"\n")[1:])


async def append(door: Door, data: bytes, **headers: str) -> None:
    answer = await door.ask("POST", A, data, content_type="text/plain", **headers)
    assert answer.status == 204


async def test_what_is_there_comes_first_and_then_what_is_new() -> None:
    async with open_door() as door:
        await door.stream("a", b"old", content_type="text/plain")
        reply = follow(door)
        assert reply.tape.headers["content-type"] == "text/event-stream"
        assert kinds(reply) == ["data", "control"]
        await append(door, b"new")
        assert kinds(reply) == ["data", "control"] * 2
        assert b"data:new\n" in reply.tape.written[-1]
        reply.tape.gone()


async def test_an_empty_stream_says_once_that_the_reader_is_up_to_date() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        reply = follow(door, "offset=now")
        assert kinds(reply) == ["control"]
        assert b'"upToDate":true' in reply.tape.written[0]
        reply.tape.gone()


async def test_the_last_data_and_the_closing_control_are_one_write() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        reply = follow(door)
        await append(door, b"last", stream_closed="true")
        assert kinds(reply) == ["control", "data", "control"]
        assert reply.tape.written[-1].count(b"event: ") == 2
        assert b"streamClosed" in reply.tape.written[-1]
        assert reply.tape.is_closed
        assert not door.context.live


async def test_nothing_is_written_to_a_reader_that_does_not_read() -> None:
    async with open_door(page_bytes=1024) as door:
        await door.stream("a", content_type="text/plain")
        reply = follow(door)
        reply.tape.is_paused = True
        for letter in (b"x", b"y", b"z"):
            await append(door, letter * 2000)
        assert kinds(reply) == ["control"]
        reply.tape.resume()
        assert kinds(reply) == ["control"] + ["data", "control"] * 3
        assert [len(part) > 2000 for part in reply.tape.written[1:]] == [True] * 3
        reply.tape.gone()


async def test_readers_at_the_end_share_one_encoded_event() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        replies = [follow(door, "offset=now") for _ in range(3)]
        await append(door, b"x")
        events = {id(reply.tape.written[-1]) for reply in replies}
        assert len(events) == 1
        for reply in replies:
            reply.tape.gone()


async def test_an_event_is_shared_only_with_readers_at_the_place_where_it_starts() -> None:
    """Readers that stopped at different places go on in any order: none misses or repeats."""
    for order in itertools.permutations(range(4)):
        async with open_door() as door:
            await door.stream("a", content_type="text/plain")
            # The one who never stops is told first, so the others find what it was given.
            steady, *replies = [follow(door) for _ in range(5)]
            for number, letter in enumerate((b"w", b"x", b"y", b"z")):
                replies[number].tape.is_paused = True
                await append(door, letter)
            assert [messages(reply) for reply in replies] == [b"", b"w", b"wx", b"wxy"]
            for number in order:
                replies[number].tape.resume()
                assert messages(replies[number]) == b"wxyz", order
            await append(door, b"!")
            everybody = (steady, *replies)
            assert [messages(reply) for reply in everybody] == [b"wxyz!"] * 5
            assert len({id(reply.tape.written[-1]) for reply in everybody}) == 1
            for reply in everybody:
                reply.tape.gone()


async def test_an_event_that_the_stream_has_left_behind_is_given_to_nobody() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        first, late = follow(door), follow(door)
        late.tape.is_paused = True
        await append(door, b"w")
        assert messages(first) == b"w"
        first.tape.is_paused = True
        await append(door, b"x")
        late.tape.resume()
        assert messages(late) == b"wx"
        assert b"".join(late.tape.written).count(b'"upToDate":true') == 2
        first.tape.resume()
        assert messages(first) == b"wx"
        for reply in (first, late):
            reply.tape.gone()


async def test_bytes_are_announced_as_base64() -> None:
    async with open_door() as door:
        await door.stream("a", b"\xff\x00", content_type="image/png")
        reply = follow(door)
        assert reply.tape.headers["stream-sse-data-encoding"] == "base64"
        assert b"data:/wA=\n" in reply.tape.written[0]
        reply.tape.gone()


async def test_it_ends_after_its_time() -> None:
    async with open_door(sse_ms=100) as door:
        await door.stream("a", content_type="text/plain")
        reply = follow(door)
        async with asyncio.timeout(10):
            await reply.tape.ended.wait()
        assert not door.context.live


async def test_a_deletion_and_a_stop_end_it() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        stopped = follow(door)
        for end in tuple(door.context.live):
            end()
        assert stopped.tape.is_closed
        deleted = follow(door)
        await door.ask("DELETE", A)
        assert deleted.tape.is_closed
