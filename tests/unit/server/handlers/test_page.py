import pytest

from millstream.server.handlers.page import json_array
from tests.support.doors import open_door

pytestmark = pytest.mark.anyio
A = "/v1/stream/a"


async def test_a_page_ends_at_its_size_and_says_where_the_next_begins() -> None:
    async with open_door(page_bytes=1024) as door:
        await door.stream("a", content_type="text/plain")
        for letter in (b"x", b"y", b"z"):
            await door.ask("POST", A, letter * 700, content_type="text/plain")
        first = await door.ask("GET", A)
        assert first.body == b"x" * 700 + b"y" * 700
        assert "stream-up-to-date" not in first.headers
        second = await door.ask("GET", f"{A}?offset={first.headers['stream-next-offset']}")
        assert second.body == b"z" * 700
        assert second.headers["stream-up-to-date"] == "true"


async def test_json_messages_come_as_an_array() -> None:
    async with open_door() as door:
        await door.stream("a", b"[1.0,2]", content_type="application/json")
        await door.ask("POST", A, b'{"b":1,"a":2}', content_type="application/json")
        assert (await door.ask("GET", A)).body == b'[1.0,2,{"b":1,"a":2}]'
        assert (await door.ask("GET", A + "?limit=1")).body == b"[1.0]"


async def test_a_page_that_is_held_is_304_without_body_or_type() -> None:
    async with open_door() as door:
        await door.stream("a", b"x", content_type="text/plain")
        tag = (await door.ask("GET", A)).headers["etag"]
        again = await door.ask("GET", A, if_none_match=tag)
        assert (again.status, again.body) == (304, b"")
        assert "content-type" not in again.headers
        assert again.headers["stream-next-offset"]
        polled = await door.ask("GET", A + "?live=long-poll&offset=-1", if_none_match=tag)
        assert polled.status == 200


async def test_the_end_of_a_closed_stream_has_a_tag_of_its_own() -> None:
    async with open_door() as door:
        await door.stream("a", b"x", content_type="text/plain")
        tag = (await door.ask("GET", A)).headers["etag"]
        await door.ask("POST", A, stream_closed="true")
        answer = await door.ask("GET", A, if_none_match=tag)
        assert (answer.status, answer.headers["stream-closed"]) == (200, "true")


@pytest.mark.parametrize("size", [1, 100, 5000])
@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_an_array_is_the_same_joined_or_in_parts(size: int, count: int) -> None:
    parts = [b'"%b"' % (b"x" * size)] * count
    array = json_array(parts)
    whole = array if isinstance(array, bytes) else b"".join(array)
    assert whole == b"[" + b",".join(parts) + b"]"
    if count and size > 4000:
        assert isinstance(array, list), "large parts are not copied"
        assert array[1] is parts[0]
    else:
        assert isinstance(array, bytes)
