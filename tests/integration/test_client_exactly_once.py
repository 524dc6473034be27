"""100,000 appends through everything that can go wrong: each stored once, in order, as reported.

`FAULT_SEED` repeats a run; without it the seed is drawn and printed.
"""

import asyncio
import os
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from millstream.client import (
    GRANTED,
    AutoClaim,
    Client,
    ClientError,
    Delivered,
    Delivery,
    Granted,
    Producer,
    Retry,
)
from millstream.client.aio.calls import Caller
from millstream.client.core.answers import Answer
from millstream.client.core.requests import Request
from millstream.testing.process import ServerProcess
from tests.support.delivery_books import Failed, Report, complaints, message
from tests.support.fault_proxy import ALL_FAULTS, Fault, FaultProxy

pytestmark = pytest.mark.anyio

PRODUCERS: dict[str, int | Granted | AutoClaim] = {
    "declared": 0,
    "later": 7,
    "granted": GRANTED,
    "claimed": AutoClaim(0),
}
APPENDS = 25_000
BATCH = 25
KILLS = 5
# Shorter than the longest stall, so that some requests are given up and still arrive.
TIMEOUT_S = 1.0
# Longer than all faults together take; a client that is stuck fails the test with it.
PATIENCE_S = 100.0
# Tries again well within a deadline of half a second.
QUICK = Retry(initial_delay_s=0.01, max_delay_s=0.05)


@pytest.fixture
def seed() -> int:
    chosen = int(os.environ.get("FAULT_SEED") or secrets.randbelow(1 << 32))
    print(f"FAULT_SEED={chosen}")
    return chosen


async def settled(deliveries: Sequence[Delivery]) -> list[Report]:
    """Wait for every report."""
    reports: list[Report] = []
    for delivery in deliveries:
        try:
            reports.append(await delivery)
        except ClientError as error:
            reports.append(Failed(type(error).__name__, getattr(error, "is_uncertain", False)))
    return reports


async def stored(server: ServerProcess, name: str) -> list[dict[str, Any]]:
    """Read the whole stream, not through the proxy."""
    async with Client(server.url) as client, client.stream(name).read() as reader:
        return await reader.json()


async def produce(producer: Producer, name: str, count: int) -> list[Delivery]:
    """Append as fast as the producer takes it, and flush; a failure is raised."""
    deliveries = [await producer.send(message(name, number)) for number in range(count)]
    await producer.flush()
    return deliveries


async def kill_now_and_then(
    server: ServerProcess, proxy: FaultProxy, batches: int, kills: int
) -> None:
    """Kill and start the server so often, evenly over the batches that it answers."""
    for turn in range(1, kills + 1):
        await proxy.has_answered(turn * batches // (kills + 1))
        await asyncio.to_thread(server.restart, kill=True)


async def run(
    server: ServerProcess, seed: int, count: int, kills: int
) -> tuple[dict[str, list[Report]], FaultProxy]:
    """Let four producers write through the proxy while the server is killed again and again."""
    async with FaultProxy(server.port, seed=seed) as proxy:
        async with Client(server.url) as direct:
            await direct.stream("faults").create("application/json")
        async with (
            Client(proxy.url, timeout_s=TIMEOUT_S) as client,
            asyncio.TaskGroup() as tasks,
        ):
            stream = client.stream("faults", content_type="application/json")
            batches = len(PRODUCERS) * count // BATCH
            tasks.create_task(kill_now_and_then(server, proxy, batches, kills))
            writing = {
                name: tasks.create_task(
                    produce(
                        stream.producer(
                            name,
                            epoch=epoch,
                            max_in_flight=5,
                            max_batch_messages=BATCH,
                            delivery_timeout_s=PATIENCE_S,
                        ),
                        name,
                        count,
                    )
                )
                for name, epoch in PRODUCERS.items()
            }
        books = {name: await settled(task.result()) for name, task in writing.items()}
        return books, proxy


async def test_every_message_is_stored_once_in_order_and_where_the_report_says(
    server: ServerProcess, seed: int
) -> None:
    books, proxy = await run(server, seed, APPENDS, KILLS)
    held = await stored(server, "faults")
    assert complaints(held, books, proxy.forwarded)[:20] == []
    # No deadline passed, so flush did not raise, and everything has to be there.
    assert len(held) == len(PRODUCERS) * APPENDS
    reports = [report for book in books.values() for report in book]
    delivered = [report for report in reports if isinstance(report, Delivered)]
    assert len(delivered) == len(reports)
    assert [report for report in delivered if report.offset is None] == []
    # The run attacked what it says it attacks.
    assert set(proxy.counts) == set(Fault)
    assert any(report.is_duplicate for report in delivered)


async def test_a_client_whose_retries_the_server_cannot_recognise_is_caught(
    server: ServerProcess, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Caller.once

    async def once(self: Caller, request: Request, attempt: int = 1) -> Answer:
        if "Producer-Seq" not in request.headers:
            return await real(self, request, attempt)
        plain = {name: v for name, v in request.headers.items() if "Producer" not in name}
        answer = await real(self, msgspec.structs.replace(request, headers=plain), attempt)
        # To a producer 204 means that the batch was there before.
        return msgspec.structs.replace(answer, status=200) if answer.status == 204 else answer

    monkeypatch.setattr(Caller, "once", once)
    books, proxy = await run(server, seed, 1000, 0)
    found = complaints(await stored(server, "faults"), books, proxy.forwarded)
    assert any("is stored twice" in line for line in found)


async def test_flush_raises_when_a_deadline_passed_and_only_then(
    server: ServerProcess, seed: int
) -> None:
    shares: dict[Fault, float] = {fault: 3 * share for fault, share in ALL_FAULTS.items()}
    del shares[Fault.STALL]
    async with (
        FaultProxy(server.port, seed=seed, shares=shares) as proxy,
        Client(proxy.url, timeout_s=TIMEOUT_S) as client,
    ):
        stream = client.stream("outage", content_type="application/json")
        await stream.create("application/json")
        producer = stream.producer(
            "p", max_batch_messages=BATCH, delivery_timeout_s=0.5, retry=QUICK
        )
        deliveries: list[Delivery] = []
        raised: list[bool] = []
        for turn in range(8):
            # Every second turn the line is dead for longer than a message may take.
            proxy.is_down = turn % 2 == 1
            first = len(deliveries)
            numbers = range(first, first + 200)
            deliveries += [await producer.send(message("p", number)) for number in numbers]
            try:
                await producer.flush()
                raised.append(False)
            except ClientError:
                raised.append(True)
            reports = await settled(deliveries[first:])
            assert raised[-1] == any(isinstance(report, Failed) for report in reports)
        proxy.heal()
        await producer.detach()
        reports = await settled(deliveries)
        held = await stored(server, "outage")
        assert complaints(held, {"p": reports}, proxy.forwarded)[:20] == []
        # Dead lines were noticed, and the producer came back after them.
        assert True in raised
        assert False in raised[2:]
