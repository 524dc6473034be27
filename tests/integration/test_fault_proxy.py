"""The fault proxy does what it says: each fault alone, seen from both sides."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator

import pytest

from millstream.testing.process import ServerProcess
from tests.support.client import JSON, Client
from tests.support.fault_proxy import Fault, FaultProxy
from tests.support.http11 import Answer, Connection, Gone

pytestmark = pytest.mark.anyio

PATIENCE_S = 20.0


@contextlib.asynccontextmanager
async def faulty(server: ServerProcess, fault: Fault) -> AsyncIterator[tuple[FaultProxy, str]]:
    """A proxy that does nothing but this fault, and a new stream behind it."""
    name = "proxy-" + secrets.token_hex(4)
    await asyncio.to_thread(Client(server.port).put, name, b"", JSON)
    async with FaultProxy(server.port, shares={fault: 1.0}, stall_s=0.1) as proxy:
        yield proxy, name


async def post(proxy: FaultProxy, name: str, seq: int = 0) -> Answer:
    """Append one batch through the proxy, on a connection of its own. Raises Gone."""
    connection = await Connection.open(int(proxy.url.rpartition(":")[2]))
    stamp = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(seq)}
    with contextlib.closing(connection):
        connection.send("POST", f"/v1/stream/{name}", {**JSON, **stamp}, b"[%d]" % seq)
        async with asyncio.timeout(PATIENCE_S):
            return await connection.answer()


async def stored(server: ServerProcess, name: str) -> list[int]:
    answer = await asyncio.to_thread(Client(server.port).get, name)
    found: list[int] = answer.json
    return found


async def test_a_cut_before_sending_leaves_nothing_behind(shared_server: ServerProcess) -> None:
    async with faulty(shared_server, Fault.CUT_BEFORE) as (proxy, name):
        with pytest.raises(Gone):
            await post(proxy, name)
        assert await stored(shared_server, name) == []


async def test_a_refusal_leaves_nothing_behind(shared_server: ServerProcess) -> None:
    async with faulty(shared_server, Fault.REFUSED) as (proxy, name):
        statuses = {(await post(proxy, name)).status for _ in range(20)}
        assert statuses == {500, 503, 429}
        assert await stored(shared_server, name) == []


async def test_a_lost_answer_was_an_append(shared_server: ServerProcess) -> None:
    async with faulty(shared_server, Fault.LOST_ANSWER) as (proxy, name):
        with pytest.raises(Gone):
            await post(proxy, name)
        assert await stored(shared_server, name) == [0]


async def test_a_false_504_was_an_append(shared_server: ServerProcess) -> None:
    async with faulty(shared_server, Fault.FALSE_504) as (proxy, name):
        assert (await post(proxy, name)).status == 504
        assert await stored(shared_server, name) == [0]


async def test_an_answer_is_cut_inside(shared_server: ServerProcess) -> None:
    async with faulty(shared_server, Fault.CUT_ANSWER) as (proxy, name):
        for seq in range(10):
            with contextlib.suppress(Gone):
                await post(proxy, name, seq)
        assert await stored(shared_server, name) == list(range(10))
        assert proxy.counts[Fault.CUT_ANSWER] == 10


async def test_a_late_request_arrives_after_its_sender_was_cut_off(
    shared_server: ServerProcess,
) -> None:
    async with faulty(shared_server, Fault.LATE) as (proxy, name):
        with pytest.raises(Gone):
            await post(proxy, name)
        async with asyncio.timeout(PATIENCE_S):
            await proxy.has_answered(1)
        assert await stored(shared_server, name) == [0]


async def test_a_stalled_request_is_answered_in_the_end(shared_server: ServerProcess) -> None:
    async with faulty(shared_server, Fault.STALL) as (proxy, name):
        assert (await post(proxy, name)).status == 200


async def test_a_later_request_overtakes_an_earlier_one(shared_server: ServerProcess) -> None:
    async with faulty(shared_server, Fault.REORDER) as (proxy, name):
        held = asyncio.create_task(post(proxy, name, 0))
        await proxy.has_drawn(1)
        proxy.heal()
        overtaking = await post(proxy, name, 1)
        assert overtaking.status == 409
        assert overtaking.headers["producer-expected-seq"] == "0"
        assert (await held).status == 200


async def test_a_proxy_that_is_down_cuts_everything_until_it_is_healed(
    shared_server: ServerProcess,
) -> None:
    async with faulty(shared_server, Fault.REFUSED) as (proxy, name):
        proxy.is_down = True
        with pytest.raises(Gone):
            await post(proxy, name)
        proxy.heal()
        assert (await post(proxy, name)).status == 200


async def test_a_server_that_is_away_looks_like_a_cut_and_comes_back(
    server: ServerProcess,
) -> None:
    async with faulty(server, Fault.REFUSED) as (proxy, name):
        proxy.heal()
        await asyncio.to_thread(server.kill)
        with pytest.raises(Gone):
            await post(proxy, name)
        await asyncio.to_thread(server.start)
        assert (await post(proxy, name)).status == 200
