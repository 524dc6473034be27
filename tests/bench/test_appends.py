"""The closed loop against a small server in the same process."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat

import pytest

from bench.load import appends
from bench.load.dialect import BadReply, Request
from bench.load.http import Http
from bench.load.window import Pace

OK = b"HTTP/1.1 204 No Content\r\n\r\n"
BUSY = b"HTTP/1.1 503 Service Unavailable\r\n\r\n"
REQUEST = b"POST /v1/stream/s HTTP/1.1\r\n\r\n"

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def answering(answer: bytes, heard: list[bytes]) -> AsyncIterator[Http]:
    """Answer every request line that ends in an empty line, and note all that was heard."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer)
        except asyncio.IncompleteReadError:
            pass
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield Http("127.0.0.1", server.sockets[0].getsockname()[1])


async def test_every_request_is_sent_once_and_every_message_counted() -> None:
    heard: list[bytes] = []
    async with answering(OK, heard) as dialect:
        sequences = [repeat(Request(REQUEST, 1, 10), 3), repeat(Request(REQUEST, 1, 10), 2)]
        done = await appends.work_off(dialect, dialect.appended, sequences, os.getpid())
    assert done.messages == 50
    assert len(done.latencies) == len(heard) == 5


async def test_what_must_be_said_first_is_said_once() -> None:
    heard: list[bytes] = []
    async with answering(OK, heard) as dialect:
        request = Request(REQUEST, 1, 1, b"HELLO ")
        await appends.work_off(dialect, dialect.appended, [repeat(request, 3)], os.getpid())
    assert heard == [b"HELLO " + REQUEST, REQUEST, REQUEST]


async def test_a_refusal_ends_the_load_with_an_error() -> None:
    async with answering(BUSY, []) as dialect:
        with pytest.raises(BadReply, match="503"):
            await appends.run(dialect, [Request(REQUEST, 1, 1)], Pace(0.0, 5.0), os.getpid())


async def test_after_the_limit_nothing_more_is_sent() -> None:
    heard: list[bytes] = []
    async with answering(OK, heard) as dialect:
        endless = repeat(Request(REQUEST, 1, 1))
        done = await appends.work_off(dialect, dialect.appended, [endless], os.getpid(), 0.05)
    assert done.messages == len(heard) > 0


async def test_the_warm_up_is_not_measured() -> None:
    heard: list[bytes] = []
    async with answering(OK, heard) as dialect:
        done = await appends.run(dialect, [Request(REQUEST, 1, 1)], Pace(0.1, 0.05), os.getpid())
    assert 0 < done.messages <= len(done.latencies) < len(heard)
    assert 0.05 <= done.span.seconds < 0.15
