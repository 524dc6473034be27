"""The suite's `benchmark` command: one operation, and how long it took."""

from __future__ import annotations

import asyncio
import time
from typing import Any, assert_never

from millstream.client.adapter_commands import (
    Benchmark,
    MeasureAppend,
    MeasureAppends,
    MeasureCreate,
    MeasureItems,
    MeasureRead,
    MeasureRoundtrip,
)
from millstream.client.aio.stream import Stream
from millstream.client.core.bodies import is_json
from millstream.client.core.encoding import Raw

Metrics = dict[str, int]


async def measure(command: Benchmark, stream: Stream) -> dict[str, Any]:
    """Do the operation on the stream; return its duration and what was moved."""
    began = time.perf_counter_ns()
    metrics = await _operate(command, stream)
    duration_ns = time.perf_counter_ns() - began
    rates = {
        "opsPerSecond": metrics.get("messagesProcessed", 1) * 1e9 / duration_ns,
        "bytesPerSecond": metrics.get("bytesTransferred", 0) * 1e9 / duration_ns,
    }
    return {"durationNs": str(duration_ns), "metrics": {**metrics, **rates}}


async def _operate(command: Benchmark, stream: Stream) -> Metrics:
    match command.operation:
        case MeasureAppend(size=size):
            await stream.append(_payload(size, stream.content_type))
            return {"bytesTransferred": size}
        case MeasureRead(offset=offset):
            async with stream.read(offset) as reader:
                return {"bytesTransferred": len(await reader.bytes())}
        case MeasureCreate(content_type=content_type):
            await stream.create(content_type)
            return {}
        case MeasureRoundtrip() as operation:
            return await _roundtrip(operation, stream)
        case MeasureAppends() as operation:
            return await _appends(operation, stream, command.iteration_id)
        case MeasureItems():
            return await _items(stream)
        case unknown:
            assert_never(unknown)


async def _roundtrip(operation: MeasureRoundtrip, stream: Stream) -> Metrics:
    await stream.create(operation.content_type)
    async with asyncio.TaskGroup() as tasks, stream.read("-1", live=operation.live) as reader:
        tasks.create_task(stream.append(_payload(operation.size, stream.content_type)))
        async for batch in reader:
            if batch.data:
                return {"bytesTransferred": operation.size + len(batch.data)}
    return {"bytesTransferred": operation.size}


async def _appends(operation: MeasureAppends, stream: Stream, iteration_id: str) -> Metrics:
    await stream.create(stream.content_type or "application/octet-stream")
    payload = _payload(operation.size, stream.content_type)
    async with stream.producer(f"bench-{iteration_id}") as producer:
        for _ in range(operation.count):
            await producer.send(payload)
        await producer.flush()
    return {
        "bytesTransferred": operation.count * operation.size,
        "messagesProcessed": operation.count,
    }


async def _items(stream: Stream) -> Metrics:
    count = size = 0
    async with stream.read() as reader:
        async for batch in reader:
            count += len(batch.items())
            size += len(batch.data)
    return {"bytesTransferred": size, "messagesProcessed": count}


def _payload(size: int, content_type: str | None) -> Raw:
    """Return a message of this size that a stream of this type takes."""
    if is_json(content_type):
        return Raw(b'"' + b"*" * max(size - 2, 0) + b'"')
    return Raw(b"*" * size)
