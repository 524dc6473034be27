"""The blocking surface; what it does underneath is tested with the asynchronous one."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest

from millstream.client.aio.stream import Stream
from millstream.client.core.batches import MESSAGE_OVERHEAD_BYTES, Delivered
from millstream.client.core.encoding import Raw
from millstream.client.errors import (
    BadMessage,
    BufferFull,
    ClientError,
    MessageTooLarge,
    NotFound,
    ProducerClosed,
    Timeout,
)
from millstream.client.sync.portal import Portal
from millstream.client.sync.producer import Delivery, Producer
from tests.support.producer_stream import ModelStream


class Threaded(ModelStream):
    """A model stream for a producer that lives on the portal's loop."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []

    def producer(self, *_: Any, **options: Any) -> Any:
        return super().producer(**options)


@pytest.fixture
def portal() -> Iterator[Portal]:
    opened = Portal()
    yield opened
    opened.close()


def producer_of(portal: Portal, stream: Threaded, **options: Any) -> Producer:
    return Producer(portal, cast("Stream", stream), "p", **options)


def test_the_surface_is_the_same_and_blocks(portal: Portal) -> None:
    stream = Threaded()
    with producer_of(portal, stream) as producer:
        first = producer.append(1)
        assert first.result() == Delivered("1", False, 0, 0)
        assert first.outcome == Delivered("1", False, 0, 0)
        producer.send(2)
        producer.flush()
        assert (producer.epoch, producer.next_seq, producer.last_offset) == (0, 2, "2")
        assert (producer.pending_count, producer.in_flight_count) == (0, 0)
        assert (producer.buffered_bytes, producer.error) == (0, None)
        producer.restart()
        assert producer.epoch == 1
        assert producer.close(3) == producer.close()
    assert stream.server.log == [1, 2, 3]
    with pytest.raises(ProducerClosed):
        producer.append(4)


def test_errors_are_the_same(portal: Portal) -> None:
    producer = producer_of(portal, Threaded())
    bad = producer.append(Raw("1,2"))
    with pytest.raises(BadMessage):
        bad.result()
    with pytest.raises(BadMessage):
        producer.flush()
    producer.detach()
    with pytest.raises(ProducerClosed):
        producer.close()


def test_waiting_for_a_report_may_end_before_it_comes(portal: Portal) -> None:
    stream = Threaded()
    stream.model.gate.clear()
    producer = producer_of(portal, stream)
    delivery = producer.append(1)
    with pytest.raises(Timeout) as caught:
        delivery.result(timeout_s=0.01)
    assert caught.value.is_uncertain
    portal.call(stream.model.gate.set)
    assert isinstance(delivery.result(), Delivered)


def test_a_full_buffer_is_an_error_for_append_and_a_wait_for_send(portal: Portal) -> None:
    stream = Threaded()
    stream.model.gate.clear()
    producer = producer_of(portal, stream, max_buffered_bytes=2 * MESSAGE_OVERHEAD_BYTES + 2)
    producer.append(1)
    producer.append(2)
    with pytest.raises(BufferFull):
        producer.append(3)
    assert isinstance(producer.append("x" * 500).outcome or _failure(producer), MessageTooLarge)
    with ThreadPoolExecutor() as threads:
        waiting = threads.submit(producer.send, 4)
        portal.call(stream.model.gate.set)
        assert isinstance(waiting.result().result(), Delivered)
    assert stream.server.log == [1, 2, 4]


def test_appends_of_many_threads_are_all_stored(portal: Portal) -> None:
    stream = Threaded()
    producer = producer_of(portal, stream)

    def work(name: int) -> None:
        for number in range(500):
            producer.append([name, number])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    producer.flush()
    for name in range(4):
        assert [n for k, n in stream.server.log if k == name] == list(range(500))


def test_what_is_in_the_inbox_when_the_producer_stops_fails(portal: Portal) -> None:
    stream = Threaded()
    producer = producer_of(portal, stream)
    producer.append(0).result()

    def append_and_stop() -> Delivery:
        # On the loop's thread, so that the inbox cannot be emptied in between.
        with ThreadPoolExecutor() as threads:
            delivery = threads.submit(producer.append, 1).result()
        producer._producer._session.stop(NotFound("gone"))
        return delivery

    delivery = portal.call(append_and_stop)
    assert delivery.outcome is None or isinstance(delivery.outcome, NotFound)
    with pytest.raises(NotFound):
        delivery.result()
    assert stream.server.log == [0]


def test_a_block_that_is_left_by_an_exception_stops(portal: Portal) -> None:
    stream = Threaded()
    stream.model.gate.clear()
    deliveries = []

    def work() -> None:
        with producer_of(portal, stream) as producer:
            deliveries.append(producer.append(1))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work()
    with pytest.raises(ProducerClosed):
        deliveries[0].result()
    assert portal.call(lambda: len(asyncio.all_tasks())) == 1


def _failure(producer: Producer) -> ClientError | None:
    """Return the first failure that no flush has raised."""
    return producer._portal.call(producer._producer._session.outcomes.first_failure, 99)
