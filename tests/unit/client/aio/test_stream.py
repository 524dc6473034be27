import contextlib
from collections.abc import AsyncIterator

import msgspec
import pytest

from millstream.client.aio.calls import Caller
from millstream.client.aio.client import Client
from millstream.client.aio.stream import Address, ProducerFields, Stream
from millstream.client.aio.transport import Transport
from millstream.client.core.encoding import Raw
from millstream.client.errors import BadMessage, BadOption
from millstream.client.producing_options import ProducerOptions
from tests.support.scripted import Reply, Scripted, replies, scripted

pytestmark = pytest.mark.anyio
JSON = "application/json"
DONE = Reply(204, {"stream-next-offset": "0_1"})
HEAD = Reply(200, {"stream-next-offset": "0_1", "content-type": JSON})


@contextlib.asynccontextmanager
async def stream_on(
    *answers: Reply, content_type: str | None = None
) -> AsyncIterator[tuple[Stream, Scripted]]:
    with scripted(replies(*answers)) as server:
        async with Client(server.url) as client:
            yield client.stream("a", content_type=content_type), server


async def test_the_content_type_is_asked_for_once_before_the_first_append() -> None:
    async with stream_on(HEAD, DONE) as (stream, server):
        assert (await stream.append({"a": [1]})).offset == "0_1"
        await stream.append(Raw("1.0"))
    assert [asked.method for asked in server.asked] == ["HEAD", "POST", "POST"]
    assert [asked.body for asked in server.asked[1:]] == [b'[{"a":[1]}]', b"[1.0]"]


async def test_an_array_is_one_message_and_many_are_one_request() -> None:
    async with stream_on(DONE, content_type=JSON) as (stream, server):
        await stream.append([1, 2])
        await stream.append_many([[1, 2], 3])
    assert [asked.body for asked in server.asked] == [b"[[1,2]]", b"[[1,2],3]"]


async def test_what_cannot_be_sent_is_refused_before_anything_is_sent() -> None:
    async with stream_on(DONE, content_type=JSON) as (stream, server):
        for bad in (Raw("1,2"), object(), b"bytes"):
            with pytest.raises(BadMessage):
                await stream.append(bad)
        with pytest.raises(BadMessage):
            await stream.append_many([])
        assert server.asked == []


async def test_a_close_is_bare_or_carries_a_last_message() -> None:
    async with stream_on(DONE, content_type="text/plain") as (stream, server):
        await stream.close()
        assert (await stream.close("end")).offset == "0_1"
    assert [asked.body for asked in server.asked] == [b"", b"end"]
    assert {asked.headers["stream-closed"] for asked in server.asked} == {"true"}


async def test_a_fork_names_its_source_by_path_and_keeps_its_type() -> None:
    made = Reply(201, {"stream-next-offset": "0_1", "content-type": JSON})
    async with stream_on(made) as (stream, server):
        fork = await stream.fork("b c", offset="0_1")
    headers = server.asked[0].headers
    assert (server.asked[0].path, fork.content_type) == ("/v1/stream/b%20c", JSON)
    assert (headers["stream-forked-from"], headers["stream-fork-offset"]) == (
        "/v1/stream/a",
        "0_1",
    )
    assert "content-type" not in headers


async def test_a_way_of_reading_that_does_not_exist_is_refused() -> None:
    stream = Stream(Caller(Transport()), "http://h.test/a", address=Address("http://h.test", ""))
    with pytest.raises(BadOption, match="live"):
        stream.read(live="websocket")  # type: ignore[arg-type]


def test_a_producer_takes_every_option_by_name() -> None:
    names = {field.name for field in msgspec.structs.fields(ProducerOptions)}
    assert set(ProducerFields.__annotations__) == names
