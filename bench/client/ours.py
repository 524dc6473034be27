"""Our client under load: `python -m bench.client.ours VERB URL COUNT`, in a process of its own."""

from __future__ import annotations

import sys
import time

from bench.client.load import SHORT_MESSAGES, report, values
from millstream.client import Client


async def produce(url: str, count: int) -> float:
    """Append messages through a producer; return the seconds until all are delivered."""
    async with Client() as client:
        stream = client.stream(url)
        await stream.connect()
        async with stream.producer("bench") as producer:
            began = time.perf_counter()
            for value in values(count):
                await producer.send(value)
            await producer.flush()
            return time.perf_counter() - began


async def read_bytes(url: str, count: int) -> float:
    """Read `count` bytes of a stream from its beginning, keeping none; return the seconds."""
    seen = 0
    async with Client() as client:
        began = time.perf_counter()
        async with client.stream(url).read() as reader:
            async for batch in reader:
                seen += len(batch.data)
        seconds = time.perf_counter() - began
    assert seen == count
    return seconds


async def read_json(url: str, count: int) -> float:
    """Read `count` JSON items from the beginning; return the seconds."""
    async with Client() as client:
        began = time.perf_counter()
        async with client.stream(url).read() as reader:
            items = await reader.json()
        seconds = time.perf_counter() - began
    assert len(items) == count
    return seconds


async def follow_json(url: str, count: int) -> float:
    """Read `count` JSON items over SSE, one by one; return the seconds."""
    seen = 0
    async with Client() as client:
        began = time.perf_counter()
        async with client.stream(url).read(live="sse") as reader:
            async for _ in reader.items():
                seen += 1
                if seen == count:
                    break
        return time.perf_counter() - began


async def read_short(url: str, count: int) -> float:
    """Read a short stream `count` times; return the seconds."""
    async with Client() as client:
        began = time.perf_counter()
        for _ in range(count):
            async with client.stream(url).read() as reader:
                assert len(await reader.json()) == SHORT_MESSAGES
        return time.perf_counter() - began


if __name__ == "__main__":
    report(
        sys.argv,
        {
            "produce": produce,
            "bytes": read_bytes,
            "json": read_json,
            "follow": follow_json,
            "short": read_short,
            "short-shared": read_short,
        },
    )
