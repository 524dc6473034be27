"""The official Python client under load: `python -m bench.client.official VERB URL COUNT`.

Runs in a process of its own with the packages of bench/requirements.txt on the path.
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import time
from typing import Final

import httpx  # type: ignore[import-not-found]
from durable_streams import AsyncDurableStream, astream  # type: ignore[import-not-found]

from bench.client.load import SHORT_MESSAGES, report, values

# It has no producer: appends that wait at the same time share the next request. This many at a
# time is its best; with fewer the requests are smaller, with more it is not faster.
CONCURRENT: Final = 5000
# Without a live mode it stops after the first page, whether there are more or not.
LIVE: Final = "long-poll"


async def produce(url: str, count: int) -> float:
    """Append messages the fastest way it offers; return the seconds."""
    async with await AsyncDurableStream.connect(url) as stream:
        pending = values(count)
        began = time.perf_counter()
        while chunk := list(itertools.islice(pending, CONCURRENT)):
            await asyncio.gather(*(stream.append(value) for value in chunk))
        return time.perf_counter() - began


async def read_bytes(url: str, count: int) -> float:
    """Read `count` bytes of a stream from its beginning, keeping none; return the seconds."""
    seen = 0
    began = time.perf_counter()
    async with astream(url, offset="-1", live=LIVE) as response:
        async for chunk in response:
            seen += len(chunk)
            if seen == count:
                break
    return time.perf_counter() - began


async def read_json(url: str, count: int) -> float:
    """Read `count` JSON items from the beginning; return the seconds."""
    began = time.perf_counter()
    async with astream(url, offset="-1", live=LIVE) as response:
        items = await response.read_json()
    seconds = time.perf_counter() - began
    assert len(items) == count
    return seconds


async def follow_json(url: str, count: int) -> float:
    """Read `count` JSON items over SSE, one by one; return the seconds."""
    seen = 0
    began = time.perf_counter()
    async with astream(url, offset="-1", live="sse") as response:
        async for _ in response.iter_json():
            seen += 1
            if seen == count:
                break
    return time.perf_counter() - began


async def read_short(url: str, count: int) -> float:
    """Read a short stream `count` times, as its documentation does it; return the seconds."""
    began = time.perf_counter()
    for _ in range(count):
        async with astream(url, live=False) as response:
            assert len(await response.read_json()) == SHORT_MESSAGES
    return time.perf_counter() - began


async def read_short_shared(url: str, count: int) -> float:
    """Do the same, but lend it one HTTP client for all reads; return the seconds."""
    async with httpx.AsyncClient() as client:
        began = time.perf_counter()
        for _ in range(count):
            async with astream(url, live=False, client=client) as response:
                assert len(await response.read_json()) == SHORT_MESSAGES
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
            "short-shared": read_short_shared,
        },
    )
