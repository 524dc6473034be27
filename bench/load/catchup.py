"""Readers that start at the beginning of a stream and read it all, as fast as they can."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from bench.load.connection import connect_all
from bench.load.dialect import Dialect
from bench.load.window import Span, instant, span

READ_S = 180.0


class Caught(NamedTuple):
    """What the readers did together."""

    messages: int
    span: Span


async def run(dialect: Dialect, stream: str, readers: int, messages: int, pid: int) -> Caught:
    """Let each of `readers` read the first `messages` of `stream`; measure until all are done."""
    made = [dialect.reader(stream, number, messages) for number in range(readers)]
    await connect_all(dialect, made)
    try:
        before = instant(pid)
        for reader in made:
            reader.begin()
        async with asyncio.timeout(READ_S):
            await asyncio.gather(*(reader.done for reader in made))
        after = instant(pid)
    finally:
        for reader in made:
            reader.transport.abort()
    return Caught(sum(reader.received for reader in made), span(before, after))
