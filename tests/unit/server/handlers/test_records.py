"""The records door: who may in, what is written, and what the answer says."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asgi import http
from tests.support.doors import Door, Heard, open_door

pytestmark = pytest.mark.anyio
A = "/records/a/b"
STREAM = "/v1/stream/a/b"


async def post(door: Door, body: bytes, query: str = "", **headers: str) -> Heard:
    return await door.ask("POST", A + query, body, **headers)


async def produce(door: Door, body: bytes, path: str = A, closed: str = "false") -> Heard:
    return await door.ask(
        "POST",
        path,
        body,
        stream_closed=closed,
        producer_id="p",
        producer_epoch="0",
        producer_seq="0",
    )


async def records(door: Door, query: str = "?offset=-") -> list[dict[str, Any]]:
    answer = await door.ask("GET", A + query)
    assert answer.status == 200, answer.body
    assert answer.headers == {"content-type": "application/json", "cache-control": "no-store"}
    found: list[dict[str, Any]] = answer.json["records"]
    return found


async def test_every_record_gets_an_offset_of_its_own_in_order() -> None:
    async with open_door() as door:
        first = await post(door, b'{"records":[1,{"x":2}]}')
        second = await post(door, b'{"records":["3"]}')
        assert (first.status, second.status) == (200, 200)
        offsets = first.json["offsets"] + second.json["offsets"]
        assert [int(offset[16:]) for offset in offsets] == [1, 2, 3]
        assert {offset[:16] for offset in offsets} == {f"{door.clock.value_ms:016d}"}
        found = await records(door)
        assert found == [
            {"offset": offset, "data": data}
            for offset, data in zip(offsets, [1, {"x": 2}, "3"], strict=True)
        ]


async def test_both_doors_lead_to_the_same_stream() -> None:
    async with open_door() as door:
        [offset] = (await post(door, b'{"records":[1]}')).json["offsets"]
        head = await door.ask("HEAD", STREAM)
        assert head.headers["content-type"] == "application/json"
        assert head.headers["stream-next-offset"].replace("_", "") == offset
        await door.ask("POST", STREAM, b"[2,[3]]", content_type="application/json")
        assert [each["data"] for each in await records(door)] == [1, 2, [3]]
        assert (await door.ask("GET", STREAM)).body == b"[1,2,[3]]"


async def test_no_records_tell_the_version_and_raise_it() -> None:
    async with open_door() as door:
        for body, query, version in (
            (b"", "", 0),
            (b"{}", "?version=3", 3),
            (b'{"records":[]}', "", 3),
            (b'{"records":[]}', "?version=9007199254740991", 2**53 - 1),
        ):
            answer = await post(door, body, query)
            assert (answer.status, answer.json) == (200, {"version": version})


async def test_a_question_makes_no_stream() -> None:
    async with open_door() as door:
        await post(door, b"{}")
        assert (await door.ask("HEAD", STREAM)).status == 404


async def test_a_lower_version_is_409_with_both_versions() -> None:
    async with open_door() as door:
        await post(door, b'{"records":[1]}', "?version=5")
        answer = await post(door, b'{"records":[2]}', "?version=4")
        assert (answer.status, answer.json["code"]) == (409, "version_fenced")
        assert (answer.json["current_version"], answer.json["provided_version"]) == (5, 4)
        assert answer.json["error"]
        assert len(await records(door)) == 1


@pytest.mark.parametrize(
    "body, query, code",
    [
        (b'{"records":1}', "", "invalid_body"),
        (b"{", "", "invalid_json"),
        (b"{}", "?version=3abc", "invalid_query"),
    ],
)
async def test_what_cannot_be_read_is_400(body: bytes, query: str, code: str) -> None:
    async with open_door() as door:
        answer = await post(door, body, query)
        assert (answer.status, answer.json["code"]) == (400, code)


async def test_a_stream_of_another_type_is_409_for_both_ways() -> None:
    async with open_door() as door:
        await door.stream("a/b", b"x", content_type="text/plain")
        for answer in (await post(door, b'{"records":[1]}'), await door.ask("GET", A)):
            assert (answer.status, answer.json["code"]) == (409, "content_type_mismatch")


async def test_a_repeated_batch_of_a_producer_gets_its_first_answer_again() -> None:
    async with open_door() as door:
        await post(door, b'{"records":[0]}')
        first = await produce(door, b'{"records":[1,2,3]}')
        door.clock.value_ms += 7
        await post(door, b'{"records":[4]}')
        again = await produce(door, b'{"records":[1,2,3]}')
        other = await produce(door, b'{"records":["something else"]}')
        assert (again.status, again.json) == (200, first.json)
        assert (other.status, other.json) == (200, first.json)
        assert len(await records(door)) == 5


async def test_a_repeat_of_a_close_without_messages_has_no_offsets() -> None:
    async with open_door() as door:
        await door.stream("a/b", content_type="application/json")
        closing = await produce(door, b"", STREAM, "true")
        assert closing.status == 204
        again = await produce(door, b'{"records":[1]}')
        assert (again.status, again.json) == (200, {"offsets": []})


async def test_a_deletion_says_so_once() -> None:
    async with open_door() as door:
        await post(door, b'{"records":[1]}')
        deleted = await door.ask("DELETE", A)
        assert (deleted.status, deleted.json) == (200, {"success": True})
        again = await door.ask("DELETE", A)
        assert (again.status, again.json["code"]) == (404, "stream_not_found")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_other_methods_are_405_with_those_that_would_do(method: str) -> None:
    async with open_door() as door:
        answer = await door.ask(method, A)
        assert (answer.status, answer.json["code"]) == (405, "method_not_allowed")
        options = await door.ask("OPTIONS", A)
        assert (options.status, options.headers["allow"]) == (204, answer.headers["allow"])
        assert answer.headers["allow"] == "GET, HEAD, POST, DELETE, OPTIONS"


@pytest.mark.parametrize("name", ["", "a//b", "a/../b", "__ds/x", "a%2Fb", "%ff"])
async def test_names_have_the_rules_of_streams(name: str) -> None:
    async with open_door() as door:
        for method in ("GET", "POST", "DELETE", "HEAD"):
            answer = await door.ask(method, "/records/" + name)
            assert (answer.status, answer.json["code"]) == (400, "invalid_path")


async def test_the_root_itself_is_nothing() -> None:
    async with open_door() as door:
        assert (await door.ask("GET", "/records")).json["code"] == "route_not_found"


async def test_the_secret_is_asked_of_every_method_but_a_preflight() -> None:
    async with open_door(records_auth="tést") as door:
        for method in ("GET", "HEAD", "POST", "DELETE", "PUT"):
            assert (await door.ask(method, A)).status == 401
            for wrong in ("x", "", "tést ", "tést, tést"):
                answer = await door.ask(method, A, auth=wrong)
                assert (answer.status, answer.json["code"]) == (401, "unauthorized")
                assert b"t\xc3\xa9st" not in answer.body
        assert (await door.ask("OPTIONS", A)).status == 204
        answer = await post(door, b'{"records":[1]}', auth="tést")
        assert answer.status == 200
        assert (await door.ask("GET", A + "?offset=-", auth="tést")).status == 200
        assert (await door.ask("GET", STREAM)).status == 200, "the main door has no secret"


async def test_a_host_for_asgi_carries_it_too() -> None:
    from millstream.server.asgi import AsgiApp

    async with open_door() as door:
        app = AsgiApp(door.app, door.context.settings)
        call = await http(app, "POST", A, b'{"records":[1]}').end()
        assert call.status == 200
        waiting = http(app, "GET", A)
        reader = await http(app, "GET", A + "?offset=-").end()
        assert b'"data":1' in reader.body
        await http(app, "POST", A, b'{"records":[2]}').end()
        assert b'"data":2' in (await waiting.end()).body
