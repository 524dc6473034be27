import asyncio

import pytest

from tests.support.doors import open_door

pytestmark = pytest.mark.anyio
A = "/v1/stream/a"


async def test_head_tells_all_and_touches_nothing() -> None:
    async with open_door() as door:
        await door.stream("a", b"x", content_type="text/plain", stream_ttl="10")
        door.clock.value_ms += 9_000
        answer = await door.ask("HEAD", A)
        assert (answer.headers["stream-ttl"], answer.headers["content-type"]) == (
            "10",
            "text/plain",
        )
        door.clock.value_ms += 1_000
        assert (await door.ask("HEAD", A)).status == 404


async def test_a_read_slides_a_life() -> None:
    async with open_door() as door:
        await door.stream("a", stream_ttl="10")
        for _ in range(3):
            door.clock.value_ms += 9_000
            assert (await door.ask("GET", A + "?offset=now")).status == 200


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_nobody_is_told_of_an_end_that_is_not_durable(method: str) -> None:
    async with open_door() as door:
        await door.stream("a", stream_ttl="10")
        door.clock.value_ms += 10_000
        late = door.begin(method, A)
        assert not late.answered.is_set()
        assert door.directory.engine.views.by_id(1) is not None
        async with asyncio.timeout(10):
            await late.answered.wait()
        assert late.response is not None
        assert late.response.status == 404
        assert door.directory.engine.views.by_id(1) is None


async def test_a_fixed_end_does_not_slide() -> None:
    async with open_door() as door:
        end_ms = door.clock.value_ms + 10_000
        await door.stream("a", stream_expires_at=stamp(end_ms))
        assert (await door.ask("HEAD", A)).headers["stream-expires-at"] == stamp(end_ms)
        door.clock.value_ms += 9_000
        assert (await door.ask("GET", A)).status == 200
        door.clock.value_ms += 1_000
        assert (await door.ask("GET", A)).status == 404


def stamp(time_ms: int) -> str:
    from millstream.wire.fields import rfc3339

    return rfc3339(time_ms)


@pytest.mark.parametrize("kind, body", [("application/json", b"[]"), ("text/plain", b"")])
async def test_now_is_an_empty_page_that_must_not_be_kept(kind: str, body: bytes) -> None:
    async with open_door() as door:
        tail = await door.stream("a", b"1", content_type=kind)
        answer = await door.ask("GET", A + "?offset=now")
        assert (answer.body, answer.headers["stream-next-offset"]) == (body, tail)
        assert answer.headers["cache-control"] == "no-store"
        assert "etag" not in answer.headers


async def test_an_offset_of_an_earlier_incarnation_is_gone() -> None:
    async with open_door() as door:
        tail = await door.stream("a", b"old", content_type="text/plain")
        await door.ask("DELETE", A)
        door.clock.value_ms += 5
        await door.stream("a", b"new", content_type="text/plain")
        answer = await door.ask("GET", f"{A}?offset={tail}")
        assert (answer.status, answer.json["code"]) == (410, "offset_gone")
        assert answer.json["field"] == "offset"


async def test_a_point_in_time_starts_with_the_first_message_not_before_it() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="application/json")
        for number in (b"1", b"2", b"3"):
            door.clock.value_ms += 10
            await door.ask("POST", A, number, content_type="application/json")
        now_ms = door.clock.value_ms
        for at, body in (
            (0, b"[1,2,3]"),
            (now_ms - 10, b"[2,3]"),
            (now_ms, b"[3]"),
            (now_ms + 1, b"[]"),
        ):
            assert (await door.ask("GET", f"{A}?at={at}")).body == body
            if at:
                offset = f"{at:016d}_{0:016d}"
                assert (await door.ask("GET", f"{A}?offset={offset}")).body == body


async def test_a_bad_query_or_a_missing_stream_is_refused() -> None:
    async with open_door() as door:
        assert (await door.ask("GET", A + "?offset=x")).status == 400
        assert (await door.ask("GET", A)).status == 404
        assert (await door.ask("HEAD", A)).status == 404
