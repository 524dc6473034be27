import pytest

from tests.support.doors import open_door

pytestmark = pytest.mark.anyio


async def test_streams_are_listed_in_order_and_by_prefix() -> None:
    async with open_door() as door:
        for name in ("b", "a/2", "a/1", "ab"):
            await door.stream(name)
        everything = (await door.ask("GET", "/v1/streams")).json
        assert [stream["path"] for stream in everything["streams"]] == ["a/1", "a/2", "ab", "b"]
        assert everything["next_after"] is None
        some = (await door.ask("GET", "/v1/streams?prefix=a/&limit=1")).json
        assert [stream["path"] for stream in some["streams"]] == ["a/1"]
        assert some["next_after"] == "a/1"
        rest = (await door.ask("GET", "/v1/streams?prefix=a/&after=a/1")).json
        assert [stream["path"] for stream in rest["streams"]] == ["a/2"]


async def test_an_entry_tells_what_the_stream_is() -> None:
    async with open_door() as door:
        tail = await door.stream("a", b"xyz", content_type="text/plain", stream_ttl="60")
        await door.stream("f", stream_forked_from="/v1/stream/a", stream_closed="true")
        plain, fork = (await door.ask("GET", "/v1/streams")).json["streams"]
        assert plain["next_offset"] == tail
        assert (plain["bytes"], plain["ttl_s"], plain["forked_from"]) == (3, 60, None)
        assert (fork["forked_from"], fork["closed"]) == ("a", True)


async def test_what_has_expired_is_listed_until_its_end_is_durable() -> None:
    async with open_door() as door:
        await door.stream("a", stream_ttl="1")
        door.clock.value_ms += 1000
        assert len((await door.ask("GET", "/v1/streams")).json["streams"]) == 1
        assert (await door.ask("GET", "/v1/stream/a")).status == 404
        assert (await door.ask("GET", "/v1/streams")).json["streams"] == []


@pytest.mark.parametrize(
    "query", ["limit=0", "limit=1001", "limit=x", "limit=" + "1" * 5000, "limit=0000001001"]
)
async def test_a_bad_limit_is_refused(query: str) -> None:
    async with open_door() as door:
        answer = await door.ask("GET", f"/v1/streams?{query}")
        assert (answer.status, answer.json["field"]) == (400, "limit")


@pytest.mark.parametrize("query", ["prefix=%ff", "prefix=a&prefix=b", "after=a&after=b"])
async def test_a_bad_query_is_refused(query: str) -> None:
    async with open_door() as door:
        assert (await door.ask("GET", f"/v1/streams?{query}")).status == 400
