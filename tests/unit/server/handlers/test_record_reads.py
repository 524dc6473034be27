"""Reading records: pages by offset and limit, and every way in which a wait can end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.doors import Door, Heard, Recorder, open_door

pytestmark = pytest.mark.anyio
A = "/records/a"
STREAM = "/v1/stream/a"
JSON = "application/json"


async def post(door: Door, *values: int, path: str = A) -> list[str]:
    body = b'{"records":[%b]}' % b",".join(b"%d" % value for value in values)
    answer = await door.ask("POST", path, body)
    assert answer.status == 200, answer.body
    offsets: list[str] = answer.json["offsets"]
    return offsets


async def answer_to(reply: Recorder) -> Heard:
    async with asyncio.timeout(10):
        await reply.answered.wait()
    assert reply.response is not None
    return Heard(reply.response)


def data(answer: Heard) -> list[Any]:
    assert answer.status == 200, answer.body
    return [record["data"] for record in answer.json["records"]]


def waiting(door: Door, query: str = "") -> Recorder:
    """Begin a read that has to wait."""
    reply = door.begin("GET", A + query)
    assert reply.response is None
    assert len(door.context.live) == 1
    return reply


def nobody_waits(door: Door) -> bool:
    tail = door.directory.engine.find("a")
    watchers = getattr(tail, "watchers", None)
    return not (door.context.live or watchers or len(door.app._records._arrivals))


async def test_a_page_is_what_lies_behind_the_offset_up_to_the_limit() -> None:
    async with open_door() as door:
        offsets = await post(door, *range(12)) + await post(door, 12) + await post(door, 13, 14)
        assert data(await door.ask("GET", A + "?offset=-")) == list(range(10))
        for index, offset in enumerate(offsets):
            for limit in (1, 2, 100):
                answer = await door.ask("GET", f"{A}?offset={offset}&limit={limit}")
                assert data(answer) == list(range(15))[index + 1 :][:limit]


async def test_a_point_in_time_is_an_offset_with_an_index_of_zero() -> None:
    async with open_door() as door:
        await post(door, 1)
        door.clock.value_ms += 10
        await post(door, 2)
        moment = f"{door.clock.value_ms:016d}{0:016d}"
        assert data(await door.ask("GET", f"{A}?offset={moment}")) == [2]
        assert data(await door.ask("GET", f"{A}?offset={'0' * 32}")) == [1, 2]


async def test_nothing_behind_a_given_offset_is_an_answer_at_once() -> None:
    async with open_door() as door:
        offsets = await post(door, 1)
        assert data(await door.ask("GET", f"{A}?offset={offsets[0]}")) == []
        assert data(await door.ask("GET", A + "?timeout_sec=0")) == []
        assert nobody_waits(door)


async def test_an_offset_of_an_earlier_life_of_the_path_is_gone() -> None:
    async with open_door() as door:
        [old] = await post(door, 1)
        await door.ask("DELETE", A)
        missing = await door.ask("GET", f"{A}?offset={old}")
        door.clock.value_ms += 5
        [new] = await post(door, 2)
        changed = await door.ask("GET", f"{A}?offset={old}")
        beyond = await door.ask("GET", f"{A}?offset={new[:-1]}9&timeout_sec=60")
        for answer in (missing, changed, beyond):
            assert (answer.status, answer.json["code"]) == (410, "offset_gone")
            assert answer.json["field"] == "offset"


async def test_a_stream_that_is_not_there_is_empty_and_is_not_made_by_a_reader() -> None:
    async with open_door() as door:
        assert data(await door.ask("GET", A + "?offset=-")) == []
        assert data(await door.ask("GET", A + "?timeout_sec=0")) == []
        assert (await door.ask("HEAD", A)).status == 200
        assert (await door.ask("HEAD", STREAM)).status == 404


@pytest.mark.parametrize("query", ["", "?offset=", "?offset=-&timeout_sec=60"])
async def test_who_waits_for_a_stream_sees_its_first_records(query: str) -> None:
    async with open_door() as door:
        reply = waiting(door, query)
        await post(door, 1, path="/records/another")
        assert reply.response is None
        await post(door, 1, 2)
        assert data(await answer_to(reply)) == [1, 2]
        assert nobody_waits(door)


async def test_who_waits_for_a_stream_that_comes_empty_waits_on() -> None:
    async with open_door() as door:
        reply = waiting(door)
        await door.stream("a", content_type=JSON)
        assert reply.response is None
        await post(door, 1)
        assert data(await answer_to(reply)) == [1]
        assert nobody_waits(door)


async def test_who_waits_for_a_stream_that_is_no_json_is_told() -> None:
    async with open_door() as door:
        reply = waiting(door)
        await door.stream("a", b"x", content_type="text/plain")
        assert (await answer_to(reply)).status == 409
        assert nobody_waits(door)


async def test_a_fork_is_read_from_its_sources_first_record_on() -> None:
    async with open_door() as door:
        await post(door, 1, 2, path="/records/source")
        reply = waiting(door, "?offset=-&timeout_sec=60")
        await door.stream("a", stream_forked_from="/v1/stream/source")
        assert data(await answer_to(reply)) == [1, 2]
        await post(door, 3)
        assert data(await door.ask("GET", A + "?offset=-")) == [1, 2, 3]
        assert nobody_waits(door)


async def test_the_next_records_are_those_behind_the_tail_of_the_moment() -> None:
    async with open_door() as door:
        await post(door, 1, 2)
        reply = waiting(door)
        await post(door, 3, 4)
        assert data(await answer_to(reply)) == [3, 4]
        assert nobody_waits(door)


async def test_a_reader_at_its_own_offset_gets_all_behind_it_and_not_the_newest_batch() -> None:
    async with open_door() as door:
        [offset] = await post(door, 1)
        reply = waiting(door, f"?offset={offset}&timeout_sec=60")
        # All three are one batch for the disk: the reader is woken once, behind them.
        begun = [door.begin("POST", A, b'{"records":[%d]}' % number) for number in (2, 3, 4)]
        for each in begun:
            await answer_to(each)
        assert data(await answer_to(reply)) == [2, 3, 4]


async def test_time_ends_a_wait_with_nothing() -> None:
    async with open_door() as door:
        await post(door, 1)
        assert data(await answer_to(waiting(door, "?timeout_sec=0.01"))) == []
        missing = door.begin("GET", "/records/missing?timeout_sec=0.01")
        assert data(await answer_to(missing)) == []
        assert nobody_waits(door)


@pytest.mark.parametrize("has_fork", [False, True])
async def test_a_deletion_ends_a_wait_with_nothing(has_fork: bool) -> None:
    async with open_door() as door:
        await post(door, 1)
        if has_fork:
            await door.stream("f", stream_forked_from=STREAM)
        reply = waiting(door)
        assert (await door.ask("DELETE", A)).status == 200
        assert data(await answer_to(reply)) == []
        again = await door.ask("GET", A + "?offset=-")
        assert again.status == (410 if has_fork else 200)
        assert nobody_waits(door)


async def test_a_close_ends_a_wait_and_nobody_waits_at_the_end_of_a_closed_stream() -> None:
    async with open_door() as door:
        await post(door, 1)
        reply = waiting(door)
        await door.ask("POST", STREAM, stream_closed="true")
        assert data(await answer_to(reply)) == []
        assert data(await door.ask("GET", A)) == []
        assert data(await door.ask("GET", A + "?offset=-")) == [1]
        assert nobody_waits(door)


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_stop_of_the_server_ends_a_wait_with_nothing(is_there: bool) -> None:
    async with open_door() as door:
        if is_there:
            await post(door, 1)
        reply = waiting(door)
        for end in tuple(door.context.live):
            end()
        assert data(await answer_to(reply)) == []
        assert nobody_waits(door)


@pytest.mark.parametrize("is_there", [False, True])
async def test_a_client_that_leaves_is_forgotten(is_there: bool) -> None:
    async with open_door() as door:
        if is_there:
            await post(door, 1)
        reply = waiting(door)
        reply.gone()
        assert nobody_waits(door)
        await post(door, 2)
        assert reply.response is None


async def test_a_reader_in_trouble_keeps_no_other_one_waiting(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def trouble() -> None:
        raise ZeroDivisionError("trouble")

    async with open_door() as door:
        door.app._records._arrivals.wait("a", trouble)
        reply = waiting(door)
        await post(door, 1)
        assert data(await answer_to(reply)) == [1]
        assert "trouble" in caplog.text


async def test_a_head_never_waits() -> None:
    async with open_door() as door:
        answer = await door.ask("HEAD", A + "?timeout_sec=60")
        assert (answer.status, answer.headers["content-type"]) == (200, JSON)
        assert (await door.ask("HEAD", A + "?limit=x")).status == 400


async def test_an_expired_stream_is_empty_once_its_end_is_durable() -> None:
    async with open_door() as door:
        await door.stream("a", b"[1]", content_type=JSON, stream_ttl="10")
        door.clock.value_ms += 10_000
        reply = door.begin("GET", A + "?offset=-")
        assert reply.response is None
        assert door.directory.engine.views.by_id(1) is not None
        assert data(await answer_to(reply)) == []
        assert door.directory.engine.views.by_id(1) is None


async def test_who_comes_at_the_end_of_a_stream_sees_the_first_record_of_the_next_one() -> None:
    async with open_door() as door:
        await door.stream("a", b"[1]", content_type=JSON, stream_ttl="10")
        door.clock.value_ms += 10_000
        reply = door.begin("GET", A)
        # The end of the one and the beginning of the other are one batch for the disk.
        await post(door, 2)
        assert data(await answer_to(reply)) == [2]
        assert nobody_waits(door)


async def test_a_read_slides_a_life() -> None:
    async with open_door() as door:
        await door.stream("a", b"[1]", content_type=JSON, stream_ttl="10")
        for _ in range(3):
            door.clock.value_ms += 9_000
            assert data(await door.ask("GET", A + "?offset=-")) == [1]


async def test_what_has_left_memory_comes_from_disk() -> None:
    async with open_door() as door:
        offsets = await post(door, *range(20))
        tail = door.directory.engine.find("a")
        tail.cool()  # type: ignore[union-attr]
        answer = await door.ask("GET", f"{A}?offset={offsets[4]}&limit=7")
        assert data(answer) == list(range(5, 12))
        assert door.directory.engine.cold_reads == 1
