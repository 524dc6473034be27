"""The flaws P1 to P18 of the producer that ours replaces, each shown not to be in ours.

A real server, where it matters behind a proxy that breaks connections by a script.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from millstream.client.aio.client import Client
from millstream.client.aio.delivery import Delivery
from millstream.client.aio.stream import Stream
from millstream.client.core.batches import MESSAGE_OVERHEAD_BYTES, Delivered
from millstream.client.core.encoding import Raw
from millstream.client.core.requests import Stamp
from millstream.client.core.requests import append as append_request
from millstream.client.errors import (
    BadMessage,
    BufferFull,
    ContentTypeMismatch,
    DeliveryExpired,
    NetworkFailed,
    ProducerClosed,
    ProducerFenced,
    StreamClosed,
)
from millstream.client.hooks import Call, Hooks
from millstream.client.options import Retry
from millstream.client.producing_options import AUTO_CLAIM, ProducerOptions
from millstream.testing.process import ServerProcess
from tests.support.fault_proxy import Fault
from tests.support.scripted import Reply, scripted
from tests.support.scripted_proxy import ScriptedProxy
from tests.support.tree import PACKAGE

pytestmark = pytest.mark.anyio

JSON = "application/json"
QUICK = Retry(initial_delay_s=0.005, max_delay_s=0.02)
SINGLE: dict[str, Any] = {"max_batch_messages": 1, "linger_ms": 0, "retry": QUICK}


@pytest.fixture
async def stream(
    shared_server: ServerProcess, request: pytest.FixtureRequest
) -> AsyncIterator[Stream]:
    """A new JSON stream, reached without a proxy."""
    async with Client(shared_server.url) as client:
        made = client.stream(re.sub(r"\W", "-", request.node.name))
        await made.create(JSON)
        yield made


def name_of(stream: Stream) -> str:
    return stream.url.rpartition("/")[2]


async def held(stream: Stream) -> list[Any]:
    async with stream.read() as reader:
        return await reader.json()


async def take_over(stream: Stream, epoch: int, producer_id: str = "p") -> None:
    """Write as another process with the same producer id would."""
    stamp = Stamp(producer_id, epoch, 0)
    await stream.calls.run(append_request(stream.url, JSON, b'["other"]', stamp=stamp))


async def test_p1_an_auto_claim_with_pipelining_loses_nothing(stream: Stream) -> None:
    await take_over(stream, 5)
    producer = stream.producer("p", epoch=AUTO_CLAIM, max_in_flight=5, **SINGLE)
    deliveries = [producer.append(number) for number in range(10)]
    await producer.flush()
    assert await held(stream) == ["other", *range(10)]
    assert {(await delivery).epoch for delivery in deliveries} == {6}


async def test_p2_sequences_go_on_behind_a_claim(stream: Stream) -> None:
    await take_over(stream, 5)
    producer = stream.producer("p", epoch=AUTO_CLAIM, max_in_flight=1, **SINGLE)
    for number in range(10):
        producer.append(number)
    await producer.flush()
    assert producer.next_seq == 10
    later = [producer.append(number) for number in range(10, 15)]
    await producer.flush()
    assert await held(stream) == ["other", *range(15)]
    assert not any([(await delivery).is_duplicate for delivery in later])


async def test_p2_a_second_life_is_not_taken_for_the_first_when_its_first_request_is_lost(
    stream: Stream, shared_server: ServerProcess
) -> None:
    """One batch of an earlier life stands under the very stamp that the new life begins with."""
    async with stream.producer("p", epoch=AUTO_CLAIM, **SINGLE) as producer:
        await producer.append("first life")
    # The first request of the new life only looks at the tail.
    script = [None, Fault.CUT_BEFORE]
    async with ScriptedProxy(shared_server.port, script) as proxy, Client(proxy.url) as client:
        far = client.stream(name_of(stream), content_type=JSON)
        async with far.producer("p", epoch=AUTO_CLAIM, **SINGLE) as producer:
            report = await producer.append("second life")
    assert (report.epoch, report.is_duplicate) == (1, False)
    assert await held(stream) == ["first life", "second life"]


async def test_p3_flush_raises_when_the_network_is_dead(
    stream: Stream, shared_server: ServerProcess
) -> None:
    async with ScriptedProxy(shared_server.port) as proxy, Client(proxy.url) as client:
        proxy.is_down = True
        far = client.stream(name_of(stream), content_type=JSON)
        producer = far.producer("p", delivery_timeout_s=0.1, retry=QUICK)
        delivery = producer.append(1)
        with pytest.raises(DeliveryExpired):
            await producer.flush()
        with pytest.raises(DeliveryExpired):
            await delivery
        with pytest.raises(DeliveryExpired):
            async with far.producer("q", delivery_timeout_s=0.1, retry=QUICK) as other:
                other.append(2)


async def test_p4_a_failing_server_leaves_no_gap(
    stream: Stream, shared_server: ServerProcess
) -> None:
    script = [None, Fault.REFUSED, Fault.CUT_BEFORE, Fault.REFUSED]
    async with ScriptedProxy(shared_server.port, script) as proxy, Client(proxy.url) as client:
        producer = client.stream(name_of(stream), content_type=JSON).producer("p", **SINGLE)
        for number in range(6):
            producer.append(number)
        await producer.flush()
        await producer.close()
    assert await held(stream) == list(range(6))


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.FALSE_504, Fault.CUT_ANSWER])
async def test_p5_a_lost_answer_is_no_failure_and_no_second_copy(
    stream: Stream, shared_server: ServerProcess, fault: Fault
) -> None:
    async with ScriptedProxy(shared_server.port, [fault]) as proxy, Client(proxy.url) as client:
        producer = client.stream(name_of(stream), content_type=JSON).producer("p", **SINGLE)
        report = await producer.append(1)
        await producer.flush()
    assert report.is_duplicate
    assert report.offset == (await stream.head()).offset
    assert await held(stream) == [1]


async def test_p6_other_conflicts_are_no_gaps_and_are_asked_about_once(
    stream: Stream, shared_server: ServerProcess
) -> None:
    async with ScriptedProxy(shared_server.port) as proxy, Client(proxy.url) as client:
        far = client.stream(name_of(stream), content_type=JSON)
        typed = client.stream(name_of(stream), content_type="text/plain").producer("t", **SINGLE)
        typed.append("text")
        with pytest.raises(ContentTypeMismatch):
            await typed.flush()
        producer = far.producer("p", max_in_flight=2, **SINGLE)
        await producer.append(0)
        await stream.close()
        before = proxy.requests
        deliveries = [producer.append(number) for number in range(20)]
        with pytest.raises(StreamClosed):
            await producer.flush()
        for delivery in deliveries:
            with pytest.raises(StreamClosed):
                await delivery
        assert proxy.requests - before <= 2


async def test_p7_headers_and_parameters_of_the_handle_go_with_every_try() -> None:
    tokens = iter(range(100))

    async def token() -> str:
        await asyncio.sleep(0)
        return f"Bearer {next(tokens)}"

    answers = iter([503, 200, 200])
    with scripted(lambda _: Reply(next(answers), {"stream-next-offset": "1"})) as server:
        async with Client(server.url, headers={"X-All": "yes"}) as client:
            handle = client.stream(
                "s", content_type=JSON, headers={"Authorization": token}, params={"tenant": "t"}
            )
            producer = handle.producer("p", **SINGLE)
            producer.append(1)
            await producer.flush()
            producer.append(2)
            await producer.flush()
        sent = [(a.headers["authorization"], a.headers["x-all"], a.query) for a in server.asked]
    assert sent == [(f"Bearer {k}", "yes", {"tenant": "t"}) for k in range(3)]


async def test_p8_a_malformed_message_fails_alone(stream: Stream) -> None:
    producer = stream.producer("p")
    deliveries = [producer.append(Raw(text)) for text in ("1", "{", "2")]
    with pytest.raises(BadMessage):
        await producer.flush()
    producer.append(3)
    await producer.flush()
    assert await held(stream) == [1, 2, 3]
    assert [type(delivery.outcome) for delivery in deliveries] == [
        Delivered,
        BadMessage,
        Delivered,
    ]


async def test_p9_one_append_is_one_message(stream: Stream) -> None:
    producer = stream.producer("p")
    with pytest.raises(BadMessage):
        await producer.append(Raw("1,2"))
    await producer.append(Raw("[1,2]"))
    assert await held(stream) == [[1, 2]]


async def test_p10_close_after_detach_closes_nothing(stream: Stream) -> None:
    producer = stream.producer("p")
    producer.append(1)
    await producer.detach()
    with pytest.raises(ProducerClosed):
        await producer.close()
    assert not (await stream.head()).is_closed


async def test_p11_another_close_after_a_failed_one_is_refused(
    stream: Stream, shared_server: ServerProcess
) -> None:
    async with ScriptedProxy(shared_server.port) as proxy, Client(proxy.url) as client:
        far = client.stream(name_of(stream), content_type=JSON)
        producer = far.producer("p", delivery_timeout_s=0.1, retry=QUICK)
        proxy.is_down = True
        with pytest.raises(DeliveryExpired):
            await producer.close("A")
        proxy.is_down = False
        with pytest.raises(ProducerClosed):
            await producer.close("B")
        await producer.close("A")
    assert await held(stream) == ["A"]


async def test_p12_nothing_is_accepted_behind_an_abort(stream: Stream) -> None:
    producer = stream.producer("p")

    async def work() -> None:
        async with producer:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await work()
    with pytest.raises(ProducerClosed):
        producer.append(1)
    assert await held(stream) == []


async def test_p13_nobody_waits_for_ever_behind_a_claim(
    stream: Stream, shared_server: ServerProcess
) -> None:
    await take_over(stream, 5)
    script = [None, None, Fault.REORDER, None, Fault.REORDER, None]
    async with ScriptedProxy(shared_server.port, script) as proxy, Client(proxy.url) as client:
        far = client.stream(name_of(stream), content_type=JSON)
        producer = far.producer("p", epoch=AUTO_CLAIM, max_in_flight=5, **SINGLE)
        deliveries = [producer.append(number) for number in range(20)]
        async with asyncio.timeout(20):
            for delivery in deliveries:
                await delivery
    assert await held(stream) == ["other", *range(20)]


async def test_p14_memory_is_bounded(stream: Stream) -> None:
    limit = 10 * (MESSAGE_OVERHEAD_BYTES + 3)
    producer = stream.producer("p", max_buffered_bytes=limit)
    taken: list[Delivery] = []
    with pytest.raises(BufferFull):
        taken.extend(producer.append(100 + number) for number in range(100))
    assert producer.buffered_bytes <= limit
    for number in range(100, 200):
        await producer.send(number)
        assert producer.buffered_bytes <= limit
    await producer.flush()
    assert producer.buffered_bytes == 0
    assert (await held(stream))[-100:] == list(range(100, 200))


async def test_p15_what_is_running_is_in_flight(stream: Stream) -> None:
    seen: list[int] = []

    class Watch(Hooks):
        def on_request(self, call: Call) -> None:
            seen.append(producer.in_flight_count)

    async with Client(stream.url.partition("/v1/")[0], hooks=Watch()) as client:
        producer = client.stream(name_of(stream), content_type=JSON).producer("p", **SINGLE)
        await producer.append(1)
        assert seen == [1]
        assert producer.in_flight_count == 0


def test_p16_every_option_is_used() -> None:
    code = "\n".join(
        path.read_text()
        for path in (PACKAGE / "client").rglob("*.py")
        if not path.name.startswith("adapter")
    )
    names = [field.name for field in msgspec.structs.fields(ProducerOptions)]
    unused = [name for name in names if not re.search(rf"options\.{name}\b|self\.{name}\b", code)]
    assert unused == []


async def test_p17_a_plain_append_is_not_sent_twice(
    stream: Stream, shared_server: ServerProcess
) -> None:
    script = [Fault.LOST_ANSWER]
    async with ScriptedProxy(shared_server.port, script) as proxy, Client(proxy.url) as client:
        with pytest.raises(NetworkFailed) as caught:
            await client.stream(name_of(stream), content_type=JSON).append(1)
        assert caught.value.is_uncertain
    assert await held(stream) == [1]


async def test_p18_two_that_claim_against_each_other_come_to_an_end(stream: Stream) -> None:
    rivals = [stream.producer("p", epoch=AUTO_CLAIM, **SINGLE) for _ in range(2)]
    fenced: set[int] = set()
    stored = 0
    for turn in range(20):
        rival = rivals[turn % 2]
        try:
            await rival.append(turn)
            stored += 1
        except ProducerFenced:
            fenced.add(turn % 2)
    assert len(fenced) == 1, "one of them goes on"
    assert len(await held(stream)) == stored
