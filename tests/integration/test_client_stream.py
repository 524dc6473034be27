"""The client's stream handle against a real server, in both worlds."""

import itertools

import pytest

from millstream import client as api
from millstream.client import Client, Raw, sync
from millstream.testing.process import ServerProcess
from tests.support.scripted import Reply, replies, scripted

pytestmark = pytest.mark.anyio
JSON = "application/json"


async def test_a_stream_is_created_filled_looked_at_closed_and_deleted(
    shared_server: ServerProcess,
) -> None:
    async with Client(shared_server.url) as client:
        stream = client.stream("handle/whole life ü")
        made = await stream.create(JSON, ttl_s=600, body={"n": 0})
        again = await stream.create(JSON, ttl_s=600)
        assert (made.existed, again.existed, made.content_type) == (False, True, JSON)
        appended = await stream.append({"n": 1})
        many = await stream.append_many([{"n": 2}, [3, 4]])
        assert made.offset < appended.offset < many.offset
        head = await stream.head()
        assert (head.offset, head.ttl_s, head.is_closed) == (many.offset, 600, False)
        closed = await stream.close(Raw("1.0"))
        assert (await stream.close()).offset == closed.offset
        assert await stream.read().json() == [{"n": 0}, {"n": 1}, {"n": 2}, [3, 4], 1.0]
        with pytest.raises(api.StreamClosed) as caught:
            await stream.append({"n": 9})
        assert caught.value.code == "stream_closed"
        await stream.delete()
        with pytest.raises(api.NotFound):
            await stream.head()
        with pytest.raises(api.NotFound):
            await stream.delete()


async def test_conflicts_are_told_apart(shared_server: ServerProcess) -> None:
    async with Client(shared_server.url) as client:
        stream = client.stream("handle/conflicts")
        made = await stream.create("text/plain")
        with pytest.raises(api.CreateConflict):
            await stream.create(JSON)
        with pytest.raises(api.ContentTypeMismatch):
            await stream.append({"a": 1}, content_type=JSON)
        await stream.append("a", seq="2", if_match=made.offset)
        with pytest.raises(api.SequenceConflict):
            await stream.append("b", seq="1")
        with pytest.raises(api.OffsetConflict) as moved:
            await stream.append("b", if_match=made.offset)
        assert moved.value.next_offset == (await stream.head()).offset
        with pytest.raises(api.BadRequest):
            await stream.append("")
        with pytest.raises(api.OffsetGone):
            await stream.read("9999999999999999_0000000000000009").bytes()
        with pytest.raises(api.BadOffset):
            await stream.read("nonsense").bytes()


async def test_a_fork_goes_its_own_way(shared_server: ServerProcess) -> None:
    async with Client(shared_server.url) as client:
        source = client.stream("handle/source")
        await source.create("text/plain")
        first = await source.append("a")
        await source.append("b")
        fork = await source.fork("handle/fork of it", offset=first.offset)
        await fork.append("c")
        assert await fork.read().text() == "ac"
        assert await source.read().text() == "ab"


async def test_a_token_is_asked_for_before_every_try() -> None:
    numbers = itertools.count(1)

    async def token() -> str:
        return f"Bearer {next(numbers)}"

    tail = {"content-type": "text/plain", "stream-next-offset": "0_1", "stream-closed": "true"}
    fast = api.Retry(initial_delay_s=0.001, max_delay_s=0.001)
    with scripted(replies(Reply(503), Reply(cut=True), Reply(200, tail, b"a"))) as server:
        async with Client(server.url, headers={"Authorization": token}, retry=fast) as client:
            assert await client.stream("a").read().text() == "a"
    assert [asked.headers["authorization"] for asked in server.asked] == [
        "Bearer 1",
        "Bearer 2",
        "Bearer 3",
    ]


def test_the_blocking_client_does_the_same(shared_server: ServerProcess) -> None:
    with sync.Client(shared_server.url) as client:
        stream = client.stream("handle/blocking")
        stream.create(JSON)
        stream.append({"n": 1})
        stream.append_many([2, 3])
        stream.close()
        assert stream.head().is_closed
        assert list(stream.read().items()) == [{"n": 1}, 2, 3]
        with pytest.raises(api.StreamClosed):
            stream.append(4)
        stream.delete()
