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


async def by_lane(door: Door, method: str, block: Block, body: bytes) -> Heard | None:
    """Ask for stream ``a`` by the lane of a method; None if the lane declines."""
    lane = door.app.lane(method, A.encode())
    assert lane is not None
    reply = Toll()
    if not lane(block, body, reply):
        assert reply.response is None
        return None
    async with asyncio.timeout(10):
        await reply.answered.wait()
    assert reply.response is not None
    return Heard(reply.response)


@contextlib.asynccontextmanager
async def twins() -> AsyncIterator[tuple[Door, Door]]:
    """Open two applications that nobody could tell apart."""
    async with open_door() as short, open_door() as long:
        yield short, long


def block_of(fields: dict[str, str]) -> Block:
    named = {name.replace("_", "-").encode(): value.encode() for name, value in fields.items()}
    return Block({b"host": b"x", **named}, 0)


async def compare(
    doors: tuple[Door, Door], method: str, fields: dict[str, str], bodies: list[bytes]
) -> list[int]:
    """Send every body both ways and return the statuses, which are the same."""
    short, long = doors
    block, statuses = block_of(fields), []
    for body in bodies:
        known = await by_lane(short, method, block, body)
        known = known or await short.ask(method, A, body, **fields)
        parsed = await long.ask(method, A, body, **fields)
        assert (known.status, known.headers) == (parsed.status, parsed.headers)
        assert known.body == parsed.body
        statuses.append(known.status)
    assert (await short.ask("GET", A)).body == (await long.ask("GET", A)).body
    return statuses


@pytest.mark.parametrize(
    "fields, bodies, statuses",
    [
        ({"content_type": "text/plain"}, [b"x", b"y", b""], [204, 204, 400]),
        ({"content_type": "TEXT/plain; charset=x"}, [b"x"], [204]),
        ({"content_type": "application/json"}, [b"1"], [409]),
        ({}, [b"", b"x"], [400, 400]),
        (
            {"content_type": "text/plain", "stream_closed": "true"},
            [b"x", b"y", b""],
            [204, 409, 204],
        ),
        ({"stream_closed": "true"}, [b"", b"", b"x"], [204, 204, 400]),
        ({"content_type": "text/plain", **PRODUCER}, [b"x", b"x", b"y"], [200, 204, 204]),
        ({**PRODUCER, "stream_closed": "true"}, [b"", b""], [204, 204]),
        ({"content_type": "text/plain", **PRODUCER, "producer_seq": "7"}, [b"x"], [409]),
        ({"content_type": "text/plain", "producer_epoch": "1"}, [b"x", b""], [400, 400]),
        ({"content_type": "text/plain", "stream_seq": "5"}, [b"x", b"y"], [204, 409]),
        ({"content_type": "text/plain", "if_match": "*"}, [b"x", b"y"], [204, 204]),
        (
            {"content_type": "text/plain", "if_match": f"{0:016d}_{0:016d}"},
            [b"x", b"y"],
            [204, 412],
        ),
        ({"content_type": "text/plain", "if_match": "x"}, [b"x"], [400]),
    ],
)
async def test_the_lane_of_an_append_answers_as_the_append_does(
    fields: dict[str, str], bodies: list[bytes], statuses: list[int]
) -> None:
    async with twins() as doors:
        for door in doors:
            await door.stream("a", content_type="text/plain")
        assert await compare(doors, "POST", fields, bodies) == statuses


async def test_json_is_cut_and_judged_on_the_lane_as_elsewhere() -> None:
    bodies = [b"1", b"[2, 3]", b"[]", b"{", b'{"a":1}', b'{"a":1}}', b'"\xff"', b" 4 "]
    async with twins() as doors:
        for door in doors:
            await door.stream("a", content_type="application/json")
        statuses = await compare(doors, "POST", {"content_type": "application/json"}, bodies)
        assert statuses == [204, 204, 400, 400, 204, 400, 400, 204]
        assert (await doors[0].ask("GET", A)).body == b'[1,2,3,{"a":1},4]'


@pytest.mark.parametrize(
    "fields, bodies, statuses",
    [
        ({"content_type": "text/plain"}, [b"x", b"y"], [201, 200]),
        ({}, [b"x"], [201]),
        ({"content_type": "application/json", "stream_ttl": "60"}, [b"{", b"[1]"], [400, 201]),
        ({"stream_closed": "true"}, [b"", b""], [201, 200]),
        ({"stream_ttl": "x"}, [b""], [400]),
        ({"stream_forked_from": "/v1/stream/none"}, [b""], [404]),
    ],
)
async def test_the_lane_of_a_creation_answers_as_the_creation_does(
    fields: dict[str, str], bodies: list[bytes], statuses: list[int]
) -> None:
    async with twins() as doors:
        assert await compare(doors, "PUT", fields, bodies) == statuses


@pytest.mark.parametrize(
    "method, fields",
    [
        ("POST", {"content_type": "text/plain", **PRODUCER}),
        ("PUT", {"stream_forked_from": A}),
    ],
)
async def test_a_lane_declines_what_it_cannot_do_before_it_does_anything(
    method: str, fields: dict[str, str]
) -> None:
    async with open_door() as door:
        assert await by_lane(door, method, block_of(fields), b"x") is None
        assert door.context.engine.writer.is_idle


async def test_the_fields_of_a_block_are_read_once_for_each_method() -> None:
    block = block_of({"content_type": "text/plain"})
    async with open_door() as door:
        await by_lane(door, "PUT", block, b"")
        await by_lane(door, "POST", block, b"x")
        appended, created = block.append_terms, block.create_terms
        assert appended is not None
        assert created is not None
        await by_lane(door, "PUT", block, b"")
        await by_lane(door, "POST", block, b"y")
        assert block.append_terms is appended
        assert block.create_terms is created
        assert (await door.ask("GET", A)).body == b"xy"


async def test_a_public_url_is_what_clients_of_a_lane_are_told() -> None:
    async with open_door(public_url="https://streams.example.com/") as door:
        made = await by_lane(door, "PUT", block_of({}), b"")
        assert made is not None
        assert made.headers["location"] == "https://streams.example.com/v1/stream/a"


async def test_a_lane_to_a_stream_that_is_gone_is_refused() -> None:
    block = block_of({"content_type": "text/plain"})
    async with open_door() as door:
        for _ in range(2):
            refused = await by_lane(door, "POST", block, b"x")
            assert refused is not None
            assert refused.json["code"] == "stream_not_found"
            await by_lane(door, "PUT", block, b"x")
            await door.ask("DELETE", A)
