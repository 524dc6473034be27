"""Connections by the thousand, and readers whose time is limited, against a small server."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from bench.load import catchup
from bench.load.catchup import Wanted
from bench.load.connection import PER_ADDRESS, connect
from bench.load.http import Http

pytestmark = pytest.mark.anyio

PAGE = b'HTTP/1.1 200 OK\r\nContent-Length: 7\r\nStream-Next-Offset: 1\r\n\r\n[{"~"}]'


@asynccontextmanager
async def serving(pages: int, callers: list[str]) -> AsyncIterator[Http]:
    """Note who calls; answer so many pages of one message, then nothing more."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        callers.append(writer.get_extra_info("peername")[0])
        try:
            for _ in range(pages):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(PAGE)
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield Http("127.0.0.1", listening.sockets[0].getsockname()[1])


async def test_thousands_of_connections_come_from_several_addresses() -> None:
    callers: list[str] = []
    async with serving(1, callers) as dialect:
        for number in (0, PER_ADDRESS - 1, PER_ADDRESS, 2 * PER_ADDRESS):
            reader = await connect(dialect, dialect.reader("s", 0, 1), number)
            reader.begin()
            await reader.done
            reader.transport.abort()
    assert callers == ["127.0.0.1", "127.0.0.1", "127.0.2.1", "127.0.3.1"]


async def test_readers_are_measured_until_all_have_everything() -> None:
    async with serving(3, []) as dialect:
        found = await catchup.run(dialect, Wanted("s", 3), 2, os.getpid())
    assert found.messages == 6


async def test_readers_with_a_time_limit_count_for_what_they_have_got() -> None:
    async with serving(3, []) as dialect:
        found = await catchup.run(dialect, Wanted("s", 100, limit_s=0.2), 2, os.getpid())
    assert found.messages == 6
    assert found.span.seconds < 10


async def test_a_reader_that_is_hung_up_on_fails_the_measurement() -> None:
    def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as listening:
        dialect = Http("127.0.0.1", listening.sockets[0].getsockname()[1])
        with pytest.raises(ConnectionError):
            await catchup.run(dialect, Wanted("s", 1, limit_s=20), 1, os.getpid())
