"""Our client against the Node reference server: handle, producer, and every way of reading."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from millstream.client import (
    GRANTED,
    AutoClaim,
    BadRequest,
    Client,
    CreateConflict,
    NotFound,
    ProducerFenced,
    SequenceConflict,
    Stream,
    StreamClosed,
)
from millstream.client.aio.stream import LiveMode

pytestmark = pytest.mark.anyio

COUNT = 400
MODES: list[LiveMode] = [False, True, "long-poll", "sse"]
JSON = "application/json"


@pytest.fixture
async def client(reference_url: str) -> AsyncIterator[Client]:
    async with Client(reference_url) as opened:
        yield opened


@pytest.fixture
def stream(client: Client) -> Stream:
    return client.stream("ours-" + secrets.token_hex(4))


def items(count: int = COUNT) -> list[dict[str, Any]]:
    return [{"n": n, "text": "é\u2028"} for n in range(count)]


async def test_the_handle_creates_appends_reads_and_deletes(stream: Stream) -> None:
    created = await stream.create("text/plain", ttl_s=60)
    assert not created.existed
    assert (await stream.create("text/plain", ttl_s=60)).existed
    with pytest.raises(CreateConflict):
        await stream.create(JSON)
    await stream.append("one", seq="a")
    with pytest.raises(SequenceConflict):
        await stream.append("no", seq="a")
    tail = await stream.append("two", seq="b")
    head = await stream.head()
    assert (head.offset, head.content_type, head.is_closed) == (tail.offset, "text/plain", False)
    assert await stream.read().text() == "onetwo"
    await stream.delete()
    with pytest.raises(NotFound):
        await stream.head()


async def test_a_closed_stream_takes_nothing_more(stream: Stream) -> None:
    await stream.create(JSON)
    closed = await stream.close({"last": True})
    assert (await stream.head()).is_closed
    with pytest.raises(StreamClosed):
        await stream.append({"late": True})
    async with stream.read() as reader:
        assert await reader.json() == [{"last": True}]
        assert reader.is_closed
        assert reader.offset == closed.offset


async def test_a_fork_goes_its_own_way(stream: Stream) -> None:
    await stream.create(JSON)
    middle = await stream.append(1)
    await stream.append(2)
    fork = await stream.fork(stream.url + "-fork", offset=middle.offset)
    await fork.append(3)
    assert await fork.read().json() == [1, 3]
    assert await stream.read().json() == [1, 2]


async def test_a_pipelining_producer_writes_everything_once_and_in_order(stream: Stream) -> None:
    await stream.create(JSON)
    async with stream.producer("p", max_batch_messages=7, max_in_flight=5) as producer:
        deliveries = [producer.append(item) for item in items()]
        closed = await producer.close({"last": True})
    reports = [await delivery for delivery in deliveries]
    assert [report.seq for report in reports] == sorted(report.seq for report in reports)
    assert not any(report.is_duplicate for report in reports)
    async with stream.read() as reader:
        assert await reader.json() == [*items(), {"last": True}]
        assert reader.offset == closed.offset


async def test_a_producer_that_is_behind_is_fenced_or_claims_the_next_epoch(
    stream: Stream,
) -> None:
    await stream.create(JSON)
    async with stream.producer("p", epoch=3) as first:
        first.append("first")
    old = stream.producer("p", epoch=1)
    delivery = old.append("old")
    with pytest.raises(ProducerFenced) as caught:
        await delivery
    assert caught.value.current_epoch == 3
    async with stream.producer("p", epoch=AutoClaim(0), max_batch_messages=1) as claiming:
        for text in "abcde":
            claiming.append(text)
    assert claiming.epoch == 4
    assert await stream.read().json() == ["first", *"abcde"]


async def test_a_server_that_grants_no_epochs_says_so_clearly(stream: Stream) -> None:
    await stream.create(JSON)
    producer = stream.producer("p", epoch=GRANTED)
    with pytest.raises(BadRequest, match="epoch"):
        await producer.append("never")
    assert await stream.read().json() == []


@pytest.mark.parametrize("live", MODES)
async def test_every_way_of_reading_gives_all_items_in_order(
    stream: Stream, live: LiveMode
) -> None:
    await stream.create(JSON)
    half = COUNT // 2
    await stream.append_many(items()[:half])
    seen: list[Any] = []
    async with stream.read(live=live) as reader:
        if live is False:
            await stream.append_many(items()[half:])
            await stream.close()
        async for item in reader.items():
            seen.append(item)
            if live is not False and len(seen) == half:
                # From here on the reader waits for what is written while it reads.
                await stream.append_many(items()[half:])
                await stream.close()
        assert reader.is_closed
    assert seen == items()


@pytest.mark.parametrize("live", MODES)
async def test_bytes_arrive_as_they_were_sent(stream: Stream, live: LiveMode) -> None:
    payload = bytes(range(256)) * 40
    await stream.create()
    await stream.append(payload[:300])
    await stream.close(payload[300:])
    async with stream.read(live=live) as reader:
        assert b"".join([batch.data async for batch in reader]) == payload


@pytest.mark.parametrize("live", [True, "long-poll", "sse"])
async def test_a_reader_at_the_tail_gets_only_what_comes_later(
    stream: Stream, live: LiveMode
) -> None:
    await stream.create(JSON)
    await stream.append("before")
    async with stream.read("now", live=live, with_empty=True) as reader:
        # The first batch is empty and tells the position, so nothing can slip by unseen.
        first = await reader.next_batch()
        assert first is not None
        assert first.is_empty
        await stream.close("after")
        async with asyncio.timeout(20):
            values = [value async for batch in reader for value in batch.items()]
    assert values == ["after"]


async def test_reading_goes_on_where_another_reader_stopped(stream: Stream) -> None:
    await stream.create(JSON)
    await stream.append("a")
    async with stream.read() as reader:
        assert await reader.json() == ["a"]
        offset = reader.offset
    await stream.append("b")
    assert await stream.read(offset).json() == ["b"]
