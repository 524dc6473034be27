import asyncio

import pytest

from millstream.client.core.batches import Delivered
from millstream.client.errors import BadOption, ClientError, DeliveryExpired
from millstream.client.hooks import Call, Hooks
from tests.support.producer_stream import ModelStream, broken

pytestmark = pytest.mark.anyio


class Heard(Hooks):
    def __init__(self) -> None:
        self.retries: list[tuple[int, float]] = []
        self.deliveries: list[tuple[int, ClientError | None]] = []

    def on_retry(self, call: Call, error: ClientError, delay_s: float) -> None:
        self.retries.append((call.attempt, delay_s))

    def on_delivery(
        self, url: str, messages: int, seconds: float, error: ClientError | None
    ) -> None:
        assert seconds >= 0
        self.deliveries.append((messages, error))


async def test_hooks_hear_of_retries_and_of_every_batch() -> None:
    heard = Heard()
    stream = ModelStream(hooks=heard)
    stream.model.faults = [broken()]
    producer = stream.producer()
    producer.append(1)
    producer.append(2)
    await producer.flush()
    assert [attempt for attempt, _ in heard.retries] == [1]
    assert heard.deliveries == [(2, None)]


async def test_whatever_a_header_callable_raises_stops_the_producer_clearly() -> None:
    stream = ModelStream()
    cause = RuntimeError("token service is down")
    stream.model.faults = [cause]
    producer = stream.producer()
    delivery = producer.append(1)
    with pytest.raises(BadOption, match="RuntimeError") as caught:
        await delivery
    assert "token service" not in str(caught.value)
    assert isinstance(producer.error, BadOption)
    assert stream.server.log == []


async def test_one_timer_does_for_deadlines_of_what_is_under_way() -> None:
    stream = ModelStream()
    stream.model.gate.clear()
    producer = stream.producer(delivery_timeout_s=0.02)
    delivery = producer.append(1)
    with pytest.raises(DeliveryExpired) as caught:
        await delivery
    assert caught.value.is_uncertain
    stream.model.gate.set()
    later = producer.append(2)
    assert isinstance(await later, Delivered)
    assert stream.server.log == [1, 2]


async def test_halting_leaves_nothing_running() -> None:
    stream = ModelStream()
    stream.model.gate.clear()
    producer = stream.producer()
    producer.append(1)
    await stream.model.arrived.wait()
    await producer._pump.halt("the test ended")
    assert stream.model.running == 0
    assert producer._pump._timer is None
    assert [task for task in asyncio.all_tasks() if "Pump" in repr(task.get_coro())] == []
    await producer._pump.halt("again")
