"""The surface of the producer over a model server; real ones are in tests/integration."""

import asyncio
from typing import Any

import pytest

from millstream.client.aio.delivery import Delivery
from millstream.client.aio.producer import Producer
from millstream.client.core.answers import Answer
from millstream.client.core.batches import MESSAGE_OVERHEAD_BYTES, Delivered
from millstream.client.core.encoding import Raw
from millstream.client.errors import (
    BadMessage,
    BadOption,
    BufferFull,
    DeliveryExpired,
    MessageTooLarge,
    NotFound,
    ProducerClosed,
    ProducerFenced,
)
from millstream.client.producing_options import GRANTED, ProducerOptions
from tests.support.producer_stream import ModelStream, broken

pytestmark = pytest.mark.anyio


def not_found() -> Answer:
    return Answer(404, {})


async def test_append_returns_at_once_and_the_report_can_be_awaited() -> None:
    stream = ModelStream()
    producer = stream.producer()
    deliveries = [producer.append(number) for number in range(3)]
    assert stream.model.sent == []
    assert producer.pending_count == 3
    assert [await delivery for delivery in deliveries] == [Delivered("3", False, 0, 0)] * 3
    assert stream.server.log == [0, 1, 2]
    assert (producer.pending_count, producer.buffered_bytes) == (0, 0)
    assert (producer.epoch, producer.next_seq, producer.last_offset) == (0, 1, "3")


async def test_messages_linger_for_company() -> None:
    stream = ModelStream()
    producer = stream.producer(linger_ms=5)
    first = producer.append(1)
    await asyncio.sleep(0)
    producer.append(2)
    await first
    assert [request.body for request in stream.model.sent] == [b"[1,2]"]


async def test_a_message_that_cannot_be_sent_fails_alone() -> None:
    stream = ModelStream()
    producer = stream.producer(max_message_bytes=20)
    good = producer.append(1)
    bad = producer.append(Raw("1,2"))
    large = producer.append("x" * 30)
    last = producer.append(2)
    with pytest.raises(BadMessage):
        await producer.flush()
    await producer.flush()
    assert isinstance(await good, Delivered)
    assert isinstance(await last, Delivered)
    with pytest.raises(BadMessage):
        await bad
    with pytest.raises(MessageTooLarge):
        await large
    assert stream.server.log == [1, 2]


async def test_a_full_buffer_is_an_error_for_append_and_a_wait_for_send() -> None:
    stream = ModelStream()
    stream.model.gate.clear()
    producer = stream.producer(max_buffered_bytes=2 * MESSAGE_OVERHEAD_BYTES + 2)
    producer.append(1)
    producer.append(2)
    with pytest.raises(BufferFull):
        producer.append(3)
    loop = asyncio.get_running_loop()
    waiting = [loop.create_task(producer.send(number)) for number in (4, 5, 6)]
    await stream.model.arrived.wait()
    assert not any(task.done() for task in waiting)
    stream.model.gate.set()
    await asyncio.gather(*waiting)
    await producer.flush()
    assert stream.server.log == [1, 2, 4, 5, 6]


async def test_one_who_waits_for_room_hears_that_the_producer_stopped() -> None:
    stream = ModelStream()
    stream.model.gate.clear()
    stream.model.faults = [not_found]
    producer = stream.producer(max_buffered_bytes=MESSAGE_OVERHEAD_BYTES + 1)
    producer.append(1)
    waiting = asyncio.get_running_loop().create_task(producer.send(2))
    await stream.model.arrived.wait()
    stream.model.gate.set()
    with pytest.raises(NotFound):
        await waiting


async def test_flush_raises_the_first_failure_once_and_later_appends_raise_what_stopped_it() -> (
    None
):
    stream = ModelStream()
    stream.model.faults = [not_found]
    producer = stream.producer()
    producer.append(1)
    with pytest.raises(NotFound):
        await producer.flush()
    await producer.flush()
    with pytest.raises(NotFound):
        producer.append(2)
    with pytest.raises(NotFound):
        await producer.send(2)


async def test_a_content_type_that_is_not_known_is_asked_for_or_refused() -> None:
    stream = ModelStream(content_type=None)
    with pytest.raises(BadOption, match="content type"):
        stream.producer().append(1)
    async with stream.producer() as producer:
        producer.append(1)
    await stream.producer(epoch=1).send(2)
    assert stream.heads == 1


async def test_a_producer_needs_an_id() -> None:
    for wrong in ("", "a\nb"):
        with pytest.raises(BadOption, match="producer_id"):
            Producer(ModelStream(), wrong, ProducerOptions())


async def test_close_closes_the_stream_with_its_last_message_and_can_be_repeated() -> None:
    stream = ModelStream()
    producer = stream.producer()
    producer.append(1)
    closed = await producer.close(9)
    assert stream.server.log == [1, 9]
    assert stream.server.is_closed
    assert closed.offset == "2"
    sent = len(stream.model.sent)
    assert await producer.close(9) == closed
    assert await producer.close() == closed
    await producer.detach()
    assert len(stream.model.sent) == sent
    with pytest.raises(ProducerClosed):
        await producer.close(8)
    with pytest.raises(ProducerClosed):
        producer.append(1)
    with pytest.raises(ProducerClosed):
        await producer.send(1)


async def test_a_close_that_may_have_happened_can_only_be_repeated_as_it_was() -> None:
    stream = ModelStream()
    producer = stream.producer(delivery_timeout_s=0.02)
    stream.model.faults = [broken() for _ in range(1000)]
    with pytest.raises(DeliveryExpired):
        await producer.close("A")
    with pytest.raises(ProducerClosed, match="another last message"):
        await producer.close("B")
    with pytest.raises(ProducerClosed):
        producer.append(1)
    stream.model.faults = []
    await producer.close("A")
    assert stream.server.log == ["A"]


async def test_a_close_that_did_not_happen_leaves_the_producer_open() -> None:
    stream = ModelStream()
    producer = stream.producer()
    with pytest.raises(BadMessage):
        await producer.close(Raw("1,2"))
    producer.append(Raw("["))
    with pytest.raises(BadMessage):
        await producer.close(9)
    assert not stream.server.is_closed
    producer.append(1)
    await producer.close(2)
    assert stream.server.log == [1, 2]


async def test_a_cancelled_close_can_be_taken_up() -> None:
    stream = ModelStream()
    stream.model.gate.clear()
    producer = stream.producer()
    closing = asyncio.get_running_loop().create_task(producer.close(9))
    await stream.model.arrived.wait()
    closing.cancel()
    await asyncio.wait([closing])
    stream.model.gate.set()
    closed = await producer.close(9)
    assert closed.offset == "1"
    assert stream.server.log == [9]
    assert len(stream.model.sent) == 1


async def test_detach_leaves_the_stream_open_and_close_after_it_is_refused() -> None:
    stream = ModelStream()
    producer = stream.producer()
    delivery = producer.append(1)
    await producer.detach()
    await producer.detach()
    assert isinstance(await delivery, Delivered)
    with pytest.raises(ProducerClosed):
        await producer.close()
    with pytest.raises(ProducerClosed):
        await producer.restart()
    assert not stream.server.is_closed
    assert producer.error is None


async def test_detach_raises_what_was_not_delivered() -> None:
    stream = ModelStream()
    stream.model.faults = [not_found]
    producer = stream.producer()
    producer.append(1)
    with pytest.raises(NotFound):
        await producer.detach()
    await producer.detach()


async def test_restart_takes_the_next_epoch() -> None:
    stream = ModelStream()
    producer = stream.producer(epoch=GRANTED)
    await producer.restart()
    producer.append(1)
    await producer.restart()
    assert producer.epoch is None
    report = await producer.append(2)
    assert (report.epoch, report.seq) == (1, 0)


async def test_restart_does_not_argue_with_a_fence() -> None:
    stream = ModelStream()
    stream.server.fence(by=9)
    producer = stream.producer()
    producer.append(1)
    with pytest.raises(ProducerFenced):
        await producer.flush()
    with pytest.raises(ProducerFenced):
        await producer.restart()


async def test_a_block_that_ends_well_delivers_everything() -> None:
    stream = ModelStream()
    async with stream.producer() as producer:
        producer.append(1)
    assert stream.server.log == [1]
    assert not stream.server.is_closed


async def test_a_block_that_is_left_by_an_exception_stops_quickly() -> None:
    stream = ModelStream()
    stream.model.gate.clear()
    deliveries: list[Delivery] = []

    async def work() -> None:
        async with stream.producer(max_in_flight=1, max_batch_messages=1) as producer:
            deliveries.extend(producer.append(number) for number in (1, 2))
            await stream.model.arrived.wait()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    assert stream.model.running == 0
    found: list[Any] = []
    for delivery in deliveries:
        with pytest.raises(ProducerClosed) as caught:
            await delivery
        found.append(getattr(caught.value, "is_uncertain", False))
    assert found == [True, False]


async def test_a_block_that_is_cancelled_leaves_nothing_running() -> None:
    stream = ModelStream()
    stream.model.gate.clear()

    async def work() -> None:
        async with stream.producer() as producer:
            await producer.append(1)

    task = asyncio.get_running_loop().create_task(work())
    await stream.model.arrived.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert stream.model.running == 0
    assert asyncio.all_tasks() - {asyncio.current_task()} <= _known_tasks()


async def test_in_flight_counts_what_is_running() -> None:
    stream = ModelStream()
    producer = stream.producer(max_batch_messages=1, max_in_flight=3)
    await producer.append(0)
    stream.model.gate.clear()
    for number in range(1, 6):
        producer.append(number)
    for _ in range(3):
        await asyncio.sleep(0)
    assert producer.in_flight_count == stream.model.running == 3
    stream.model.gate.set()
    await producer.flush()
    assert producer.in_flight_count == 0


async def test_a_loop_of_sends_lets_others_run() -> None:
    stream = ModelStream()
    producer = stream.producer(linger_ms=0)
    for number in range(1000):
        await producer.send(number)
    assert stream.model.sent, "requests went out although the loop only sent"
    await producer.flush()
    assert stream.server.log == list(range(1000))


def _known_tasks() -> set[Any]:
    """The tasks that the test runner itself keeps."""
    return {t for t in asyncio.all_tasks() if "millstream" not in repr(t.get_coro())}
