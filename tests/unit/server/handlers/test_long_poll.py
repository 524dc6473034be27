import asyncio

import pytest

from tests.support.doors import Door, Heard, Recorder, open_door

pytestmark = pytest.mark.anyio
A = "/v1/stream/a"
POLL = A + "?live=long-poll&offset=now"


async def answer_to(reply: Recorder) -> Heard:
    async with asyncio.timeout(10):
        await reply.answered.wait()
    assert reply.response is not None
    return Heard(reply.response)


async def waiting(door: Door) -> Recorder:
    await door.stream("a", content_type="text/plain")
    reply = door.begin("GET", POLL)
    assert reply.response is None
    assert len(door.context.live) == 1
    return reply


async def test_an_append_is_the_answer() -> None:
    async with open_door() as door:
        reply = await waiting(door)
        await door.ask("POST", A, b"x", content_type="text/plain")
        answer = await answer_to(reply)
        assert (answer.status, answer.body) == (200, b"x")
        assert answer.headers["stream-cursor"].isdigit()
        assert not door.context.live


async def test_time_ends_the_wait_with_204() -> None:
    async with open_door(long_poll_ms=100) as door:
        answer = await answer_to(await waiting(door))
        assert (answer.status, answer.headers["stream-up-to-date"]) == (204, "true")
        assert not door.context.live


async def test_a_close_ends_the_wait_and_is_at_once_the_answer_afterwards() -> None:
    async with open_door() as door:
        reply = await waiting(door)
        await door.ask("POST", A, stream_closed="true")
        for answer in (await answer_to(reply), await door.ask("GET", POLL)):
            assert (answer.status, answer.headers["stream-closed"]) == (204, "true")
            assert "stream-cursor" not in answer.headers


async def test_a_deletion_ends_the_wait() -> None:
    async with open_door() as door:
        reply = await waiting(door)
        await door.ask("DELETE", A)
        assert (await answer_to(reply)).status == 404


async def test_a_stop_of_the_server_ends_the_wait() -> None:
    async with open_door() as door:
        reply = await waiting(door)
        for end in tuple(door.context.live):
            end()
        assert (await answer_to(reply)).status == 204


async def test_a_client_that_leaves_is_forgotten() -> None:
    async with open_door() as door:
        reply = await waiting(door)
        reply.gone()
        assert not door.context.live
        await door.ask("POST", A, b"x", content_type="text/plain")
        assert reply.response is None
