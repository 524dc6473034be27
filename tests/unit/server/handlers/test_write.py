import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from millstream.server.heads import split_lines
from millstream.server.http import Response
from millstream.server.lanes import Block
from tests.support.doors import Door, Heard, Recorder, open_door

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


class Toll(Recorder):
    """A lane's reply that remembers."""

    def reply_lines(self, status: int, lines: bytes) -> None:
        self.send(Response(status, split_lines(lines)))

    def reply(self, response: Response) -> None:
        self.send(response)


async def by_lane(door: Door, block: Block, body: bytes) -> Heard:
    """Append to stream ``a`` by its lane."""
    lane = door.app.lane("POST", A.encode())
    assert lane is not None
    reply = Toll()
    lane(block, body, reply)
    async with asyncio.timeout(10):
        await reply.answered.wait()
    assert reply.response is not None
    return Heard(reply.response)


@contextlib.asynccontextmanager
async def twins(content_type: str) -> AsyncIterator[tuple[Door, Door]]:
    """Open two applications with the same stream ``a``."""
    async with open_door() as short, open_door() as long:
        for door in (short, long):
            await door.stream("a", content_type=content_type)
        yield short, long


@pytest.mark.parametrize(
    "fields, bodies",
    [
        ({"content_type": "text/plain"}, [b"x", b"y", b""]),
        ({"content_type": "TEXT/plain; charset=x"}, [b"x", b"y"]),
        ({"content_type": "application/json"}, [b"1"]),
        ({"content_type": "text/html"}, [b"x"]),
        ({}, [b"", b"x"]),
        ({"content_type": "text/plain", "stream_closed": "true"}, [b"x", b"y", b""]),
        ({"stream_closed": "true"}, [b"", b"", b"x"]),
        ({"content_type": "text/plain", **PRODUCER}, [b"x", b"x", b"y"]),
        ({"content_type": "text/plain", **PRODUCER, "stream_closed": "true"}, [b"x", b"x"]),
        ({**PRODUCER, "stream_closed": "true"}, [b"", b""]),
        ({"content_type": "text/plain", **PRODUCER, "producer_seq": "7"}, [b"x"]),
        ({"content_type": "text/plain", "producer_id": "p"}, [b"x", b""]),
        ({"content_type": "text/plain", "stream_seq": "5"}, [b"x", b"y"]),
        ({"content_type": "text/plain", "if_match": "*"}, [b"x", b"y"]),
        ({"content_type": "text/plain", "if_match": f"{0:016d}_{0:016d}"}, [b"x", b"y"]),
        ({"content_type": "text/plain", "if_match": "x"}, [b"x"]),
    ],
)
async def test_the_lane_of_an_append_answers_as_the_append_does(
    fields: dict[str, str], bodies: list[bytes]
) -> None:
    headers = {name.replace("_", "-").encode(): value.encode() for name, value in fields.items()}
    block = Block({b"host": b"x", **headers}, 0)
    async with twins("text/plain") as (short, long):
        for body in bodies:
            known, parsed = (
                await by_lane(short, block, body),
                await long.ask("POST", A, body, **fields),
            )
            assert (known.status, known.headers) == (parsed.status, parsed.headers)
            assert known.body == parsed.body
        assert (await short.ask("GET", A)).body == (await long.ask("GET", A)).body


async def test_json_is_cut_and_judged_on_the_lane_as_elsewhere() -> None:
    block = Block({b"content-type": b"application/json"}, 0)
    async with twins("application/json") as (short, long):
        for body in (b"1", b"[2, 3]", b"[]", b"{", b'{"a":1}', b'{"a":1}}', b'"\xff"', b" 4 "):
            known = await by_lane(short, block, body)
            parsed = await long.ask("POST", A, body, content_type="application/json")
            assert (known.status, known.headers, known.body) == (
                *(parsed.status, parsed.headers, parsed.body),
            )
        assert (await short.ask("GET", A)).body == b'[1,2,3,{"a":1},4]'


async def test_the_fields_of_a_block_are_read_once() -> None:
    block = Block({b"content-type": b"text/plain"}, 0)
    async with open_door() as door:
        await door.stream("a", content_type="text/plain")
        await by_lane(door, block, b"x")
        terms = block.terms
        await by_lane(door, block, b"y")
        assert block.terms is terms is not None
        assert (await door.ask("GET", A)).body == b"xy"


async def test_a_lane_to_a_stream_that_is_gone_is_refused() -> None:
    block = Block({b"content-type": b"text/plain"}, 0)
    async with open_door() as door:
        assert (await by_lane(door, block, b"x")).json["code"] == "stream_not_found"
        await door.stream("a", content_type="text/plain")
        assert (await by_lane(door, block, b"x")).status == 204
        await door.ask("DELETE", A)
        assert (await by_lane(door, block, b"x")).json["code"] == "stream_not_found"
