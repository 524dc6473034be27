import pytest

from millstream.client import Client, ParseError
from millstream.client.adapter_commands import Read
from millstream.client.adapter_reading import Collected, collect
from tests.support.scripted import Reply, Script, replies, scripted

pytestmark = pytest.mark.anyio

TAIL = {"stream-next-offset": "2", "stream-up-to-date": "true"}
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


async def read(script: Script, command: Read, content_type: str = "text/plain") -> Collected:
    with scripted(script) as server:
        async with Client(server.url) as client:
            stream = client.stream("s", content_type=content_type)
            reader = stream.read(command.offset, live=command.live, with_empty=True)
            return await collect(reader, command, content_type)


async def test_a_catch_up_read_is_one_chunk_over_all_pages() -> None:
    first = Reply(200, {**TEXT, "stream-next-offset": "1"}, b"one")
    found = await read(replies(first, Reply(200, {**TEXT, **TAIL}, b"two")), Read(path="/s"))
    assert found.fields() == {
        "chunks": [{"data": "onetwo", "offset": "2"}],
        "offset": "2",
        "status": 200,
        "upToDate": True,
        "streamClosed": False,
    }


async def test_json_is_written_compactly_and_an_empty_page_is_no_chunk() -> None:
    page = Reply(200, {**JSON, **TAIL}, '[ {"a": "é"}, 1 ]'.encode())
    found = await read(replies(page), Read(path="/s"), "application/json")
    assert [chunk["data"] for chunk in found.chunks] == ['[{"a":"é"},1]']
    empty = await read(
        replies(Reply(200, {**JSON, **TAIL}, b"[]")), Read(path="/s"), "application/json"
    )
    assert empty.chunks == []


async def test_a_damaged_page_is_a_parse_error() -> None:
    page = Reply(200, {**JSON, **TAIL}, b'[{"a":')
    with scripted(replies(page)) as server:
        async with Client(server.url) as client:
            stream = client.stream("s", content_type="application/json")
            with pytest.raises(ParseError):
                await collect(stream.read(with_empty=True), Read(path="/s"), "application/json")


async def test_a_long_poll_read_ends_with_the_answer_that_has_nothing() -> None:
    page = Reply(200, {**TEXT, **TAIL}, b"one")
    found = await read(replies(page, Reply(204, TAIL)), Read(path="/s", live="long-poll"))
    assert [chunk["data"] for chunk in found.chunks] == ["one"]
    assert found.status == 204
    assert found.is_up_to_date


async def test_a_read_ends_at_its_limit_of_chunks() -> None:
    page = Reply(200, {**TEXT, **TAIL}, b"one")
    found = await read(replies(page), Read(path="/s", live="long-poll", max_chunks=2))
    assert len(found.chunks) == 2


async def test_a_read_that_runs_out_of_time_succeeds_with_what_it_has() -> None:
    page = Reply(200, {**TEXT, **TAIL}, b"one")
    command = Read(path="/s", live="sse", timeout_ms=50)
    # Events never come: every connection ends at once, and the reader goes on trying.
    silence = Reply(200, {"content-type": "text/event-stream"})
    found = await read(replies(page, silence), command)
    assert [chunk["data"] for chunk in found.chunks] == ["one"]
    assert found.is_up_to_date
    assert found.offset == "2"
