"""The producer against real servers: epochs, limits, restarts, other content types, blocking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from millstream.client import sync
from millstream.client.aio.client import Client
from millstream.client.core.batches import Delivered
from millstream.client.errors import (
    ClientClosed,
    MessageTooLarge,
    NotFound,
    ProducerClosed,
    ProducerFenced,
    StreamClosed,
)
from millstream.client.producing_options import GRANTED
from millstream.testing.process import ServerProcess
from tests.support.server import Servers

pytestmark = pytest.mark.anyio

JSON = "application/json"


@pytest.fixture
async def client(shared_server: ServerProcess) -> AsyncIterator[Client]:
    async with Client(shared_server.url) as opened:
        yield opened


async def test_everything_appended_is_stored_in_order(client: Client) -> None:
    stream = client.stream("order")
    await stream.create(JSON)
    async with stream.producer("p", max_batch_messages=50) as producer:
        deliveries = [producer.append({"n": number}) for number in range(2000)]
    async with stream.read() as reader:
        assert await reader.json() == [{"n": number} for number in range(2000)]
    last = await deliveries[-1]
    assert last.offset == producer.last_offset == (await stream.head()).offset


async def test_a_granted_epoch_fences_whoever_had_the_one_before(client: Client) -> None:
    stream = client.stream("granted")
    await stream.create(JSON)
    first, second = (stream.producer("p", epoch=GRANTED, linger_ms=0) for _ in range(2))
    assert (await first.append(1)).epoch == 0
    assert (await second.append(2)).epoch == 1
    with pytest.raises(ProducerFenced) as caught:
        await first.append(3)
    assert caught.value.current_epoch == 1
    with pytest.raises(ProducerFenced):
        first.append(4)
    await second.restart()
    report = await second.append(5)
    assert (report.epoch, report.seq) == (2, 0)
    async with stream.read() as reader:
        assert await reader.json() == [1, 2, 5]


@pytest.mark.parametrize("kind", ["text/plain", "application/octet-stream"])
async def test_bytes_and_text_are_joined(client: Client, kind: str) -> None:
    stream = client.stream(f"plain/{kind.partition('/')[2]}")
    await stream.create(kind)
    async with stream.producer("p") as producer:
        producer.append("é")
        producer.append(b"\x01")
        await producer.close("end")
    async with stream.read() as reader:
        assert await reader.bytes() == "é\x01end".encode()
    assert (await stream.head()).is_closed


async def test_a_batch_too_large_for_the_server_is_sent_in_pieces(servers: Servers) -> None:
    server = servers.start("--body-bytes-max", "2000")
    async with Client(server.url) as client:
        stream = client.stream("pieces")
        await stream.create(JSON)
        producer = stream.producer("p", max_in_flight=3, max_batch_messages=40)
        deliveries = [producer.append("x" * 100 + str(number)) for number in range(200)]
        huge = producer.append("y" * 3000)
        behind = producer.append("behind")
        with pytest.raises(MessageTooLarge):
            await producer.flush()
        with pytest.raises(MessageTooLarge):
            await huge
        assert isinstance(await behind, Delivered)
        assert all([isinstance(await delivery, Delivered) for delivery in deliveries])
        async with stream.read() as reader:
            items = await reader.json()
    assert items == ["x" * 100 + str(number) for number in range(200)] + ["behind"]


async def test_a_server_that_is_killed_and_comes_back_loses_and_repeats_nothing(
    server: ServerProcess,
) -> None:
    async with Client(server.url) as client:
        stream = client.stream("killed")
        await stream.create(JSON)
        producer = stream.producer("p", max_batch_messages=10)
        deliveries = []
        for number in range(600):
            deliveries.append(await producer.send(number))
            if number in {200, 400}:
                await asyncio.to_thread(server.restart, kill=True)
        await producer.flush()
        assert all(isinstance(delivery.outcome, Delivered) for delivery in deliveries)
        async with stream.read() as reader:
            assert await reader.json() == list(range(600))


async def test_closing_is_one_step_with_the_last_message(client: Client) -> None:
    stream = client.stream("closing")
    await stream.create(JSON)
    producer = stream.producer("p")
    producer.append(1)
    closed = await producer.close(2)
    assert closed.offset == (await stream.head()).offset
    assert await producer.close() == closed
    async with stream.read() as reader:
        assert await reader.json() == [1, 2]
    with pytest.raises(StreamClosed):
        await stream.producer("q").close(3)


async def test_a_stream_that_is_not_there_is_an_error_at_once(client: Client) -> None:
    with pytest.raises(NotFound):
        async with client.stream("nowhere").producer("p"):
            pytest.fail("there is nothing to write to")
    producer = client.stream("nowhere", content_type=JSON).producer("p")
    producer.append(1)
    with pytest.raises(NotFound):
        await producer.detach()


async def test_a_closed_client_ends_its_producers(shared_server: ServerProcess) -> None:
    client = Client(shared_server.url)
    stream = client.stream("client-closed")
    await stream.create(JSON)
    producer = stream.producer("p")
    await producer.append(1)
    await client.close()
    delivery = producer.append(2)
    with pytest.raises(ClientClosed):
        await delivery


def test_the_blocking_producer_does_the_same(shared_server: ServerProcess) -> None:
    with sync.Client(shared_server.url) as client:
        stream = client.stream("blocking")
        stream.create(JSON)
        with stream.producer("p", epoch=GRANTED) as producer:
            first = producer.append(1)
            producer.send(2)
            producer.flush()
            assert first.result().epoch == producer.epoch == 0
            assert producer.close(3).offset == stream.head().offset
        with stream.read() as reader:
            assert reader.json() == [1, 2, 3]
        with pytest.raises(ProducerClosed):
            producer.append(4)
