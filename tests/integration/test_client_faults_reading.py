"""Live readers behind the fault proxy: each message once and in order, in every mode."""

import asyncio
import os
import secrets
from itertools import zip_longest
from typing import Any

import pytest

from millstream.client import Client, Retry, Stream
from millstream.client.aio.stream import LiveMode
from millstream.testing.process import ServerProcess
from tests.support.fault_proxy import ALL_FAULTS, Fault, FaultProxy

pytestmark = pytest.mark.anyio

MODES: list[LiveMode] = [True, "long-poll", "sse"]
COUNT = 3000
PATIENT = Retry(max_retries=None, initial_delay_s=0.02, max_delay_s=0.5, deadline_s=60.0)


async def follow(stream: Stream, live: LiveMode) -> list[Any]:
    """Read to the end of the stream, in pieces: now and then leave, and go on where it was left."""
    seen: list[Any] = []
    offset, is_closed = "-1", False
    while not is_closed:
        async with stream.read(offset, live=live) as reader:
            async for batch in reader:
                seen += batch.items()
                offset, is_closed = reader.offset, reader.is_closed
                if len(seen) % 7 == 0:
                    break
            else:
                is_closed = True
    return seen


async def write(server: ServerProcess) -> None:
    """Write in batches straight to the server, kill it once on the way, and close at the end."""
    async with Client(server.url, retry=PATIENT) as client:
        stream = client.stream("read-faults", content_type="application/json")
        async with stream.producer("p", max_batch_messages=10, max_in_flight=1) as producer:
            for number in range(COUNT):
                delivery = await producer.send(number)
                if number % 10 == 9:
                    await delivery
                if number == COUNT // 2:
                    await asyncio.to_thread(server.restart, kill=True)
            await producer.close()


async def test_readers_lose_nothing_and_repeat_nothing(server: ServerProcess) -> None:
    seed = int(os.environ.get("FAULT_SEED") or secrets.randbelow(1 << 32))
    print(f"FAULT_SEED={seed}")
    shares: dict[Fault, float] = {**ALL_FAULTS, Fault.CUT_ANSWER: 0.2, Fault.STALL: 0.005}
    async with (
        FaultProxy(server.port, seed=seed, shares=shares, stall_s=0.5) as proxy,
        Client(server.url) as direct,
        Client(proxy.url, retry=PATIENT) as client,
    ):
        await direct.stream("read-faults").create("application/json")
        stream = client.stream("read-faults")
        async with asyncio.TaskGroup() as tasks:
            reading = [tasks.create_task(follow(stream, live)) for live in MODES]
            tasks.create_task(write(server))
        assert proxy.counts[Fault.CUT_ANSWER] > 0
    for live, task in zip(MODES, reading, strict=True):
        pairs = zip_longest(task.result(), range(COUNT))
        # The whole lists would say less: only where they part is of interest.
        assert [pair for pair in pairs if pair[0] != pair[1]][:3] == [], live
