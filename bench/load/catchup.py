"""Readers that start at the beginning of a stream and read it, as fast as they can."""

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


class Wanted(NamedTuple):
    """What each reader reads: the first `messages` of `stream`, or what it gets in `limit_s`."""

    stream: str
    messages: int
    limit_s: float | None = None


async def run(dialect: Dialect, wanted: Wanted, readers: int, pid: int) -> Caught:
    """Let `readers` read at once; measure until all are done or the time is up."""
    made = [dialect.reader(wanted.stream, n, wanted.messages) for n in range(readers)]
    await connect_all(dialect, made)
    try:
        before = instant(pid)
        for reader in made:
            reader.begin()
        ended, pending = await asyncio.wait(
            [reader.done for reader in made],
            timeout=wanted.limit_s or READ_S,
            return_when=asyncio.FIRST_EXCEPTION,
        )
        after = instant(pid)
        received = sum(reader.received for reader in made)
        for one in ended:
            one.result()
        if pending and wanted.limit_s is None:
            raise TimeoutError(f"{len(pending)} readers were not done after {READ_S:g} s")
    finally:
        for reader in made:
            reader.done.cancel()
            if hasattr(reader, "transport"):
                reader.transport.abort()
    return Caught(received, span(before, after))
