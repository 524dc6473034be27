import pytest

from tests.support.doors import open_door

pytestmark = pytest.mark.anyio
A = "/v1/stream/a"
PRODUCER = {"producer_id": "p", "producer_epoch": "0", "producer_seq": "0"}


async def test_a_stream_is_created_once_and_confirmed_after() -> None:
    async with open_door() as door:
        made = await door.ask("PUT", A, b"x", content_type="text/plain")
        assert (made.status, made.headers["location"]) == (201, "http://x/v1/stream/a")
        assert (await door.ask("PUT", A, b"ignored", content_type="text/plain")).status == 200
        other = await door.ask("PUT", A, content_type="text/html")
        assert (other.status, other.json["code"]) == (409, "stream_exists")
        assert (await door.ask("GET", A)).body == b"x"


async def test_a_public_url_is_what_clients_are_told() -> None:
    async with open_door(public_url="https://streams.example.com/") as door:
        made = await door.ask("PUT", A)
        assert made.headers["location"] == "https://streams.example.com/v1/stream/a"


async def test_an_append_is_answered_with_the_new_tail() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        answer = await door.ask("POST", A, b"x", content_type="text/plain")
        assert answer.status == 204
        assert (await door.ask("HEAD", A)).headers["stream-next-offset"] == answer.headers[
            "stream-next-offset"
        ]


async def test_a_duplicate_gets_the_offset_of_its_first_time() -> None:
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        first = await door.ask("POST", A, b"x", content_type="text/plain", **PRODUCER)
        await door.ask("POST", A, b"y", content_type="text/plain")
        again = await door.ask("POST", A, b"x", content_type="text/plain", **PRODUCER)
        assert (first.status, again.status) == (200, 204)
        assert again.headers["stream-next-offset"] == first.headers["stream-next-offset"]
        assert (await door.ask("GET", A)).body == b"xy"


async def test_refusals_of_every_layer_are_answers() -> None:
    async with open_door() as door:
        assert (await door.ask("POST", A, b"x", content_type="text/plain")).status == 404
        assert (await door.ask("PUT", A, stream_ttl="x")).json["field"] == "Stream-TTL"
        await door.stream("a", content_type="application/json")
        assert (await door.ask("POST", A, b"{", content_type="application/json")).status == 400
        assert (await door.ask("POST", A, b"")).json["code"] == "empty_body"
        assert (await door.ask("POST", A, b"1", content_type="text/plain")).status == 409


async def test_a_fork_inherits_the_type_that_its_first_messages_are_read_with() -> None:
    async with open_door() as door:
        await door.stream("a", b"[1,2]", content_type="application/json")
        await door.stream("f", b"[3]", stream_forked_from=A)
        assert (await door.ask("GET", "/v1/stream/f")).body == b"[1,2,3]"
        bad = await door.ask("PUT", "/v1/stream/g", b"{", stream_forked_from=A)
        assert (bad.status, bad.json["code"]) == (400, "invalid_json")
        missing = await door.ask("PUT", "/v1/stream/g", stream_forked_from="/v1/stream/none")
        assert (missing.status, missing.json["code"]) == (404, "source_not_found")


async def test_a_fork_of_a_fork_may_leave_before_the_point_of_the_first() -> None:
    async with open_door() as door:
        first = await door.stream("a", b"[1,2]", content_type="application/json")
        await door.ask("POST", A, b"[3,4]", content_type="application/json")
        await door.stream("f", b"[5]", stream_forked_from=A)
        await door.stream("g", b"[6]", stream_forked_from="/v1/stream/f", stream_fork_offset=first)
        assert (await door.ask("GET", "/v1/stream/g")).body == b"[1,2,6]"
        assert (await door.ask("GET", "/v1/stream/f")).body == b"[1,2,3,4,5]"


async def test_a_deleted_stream_is_gone_or_hidden() -> None:
    async with open_door() as door:
        await door.stream("a", b"x", content_type="text/plain")
        await door.stream("f", stream_forked_from=A)
        assert (await door.ask("DELETE", A)).status == 204
        assert (await door.ask("GET", A)).status == 410
        assert (await door.ask("GET", "/v1/stream/f")).body == b"x"
        assert (await door.ask("DELETE", "/v1/stream/f")).status == 204
        assert (await door.ask("GET", A)).status == 404
        assert (await door.ask("DELETE", A)).status == 404
