import pytest

from millstream.server.connection import Connection
from millstream.server.edge import Edge
from millstream.server.http import Reply, Request, Response
from millstream.server.settings import Settings
from tests.support.transport import MemoryTransport

pytestmark = pytest.mark.anyio


def empty(_request: Request, reply: Reply) -> None:
    reply.send(Response(204))


def opened(edge: Edge) -> tuple[Connection, MemoryTransport]:
    connection, transport = Connection(edge), MemoryTransport()
    connection.connection_made(transport)
    return connection, transport


async def test_connections_beyond_the_limit_are_refused_and_a_flood_is_cut() -> None:
    edge = Edge(Settings(connections_max=2), empty)
    transports = [opened(edge)[1] for _ in range(300)]
    assert [t.sent[:12] for t in transports[:4]] == [b"", b"", b"HTTP/1.1 503", b"HTTP/1.1 503"]
    assert not transports[257].is_aborted
    assert transports[299].is_aborted
    assert edge.counters.connections_refused == 298


async def test_a_refused_connection_gives_its_place_back() -> None:
    edge = Edge(Settings(connections_max=1), empty)
    first, _ = opened(edge)
    second, _ = opened(edge)
    second.connection_lost(None)
    first.connection_lost(None)
    _, transport = opened(edge)
    assert transport.sent == b""


async def test_draining_without_connections_is_over_at_once() -> None:
    edge = Edge(Settings(), empty)
    assert await edge.drain(10.0) == 0
    assert edge.is_stopping


async def test_the_sweep_ends_what_is_late() -> None:
    edge = Edge(Settings(idle_ms=60_000), empty)
    connection, transport = opened(edge)
    connection.deadline = edge.now
    edge._sweep()
    assert transport.is_closed
    connection.connection_lost(None)
    await edge.drain(0.0)


async def test_the_date_is_that_of_the_clock() -> None:
    times = iter((0.0, 86_400.0))
    edge = Edge(Settings(), empty, clock=lambda: next(times))
    assert b"01 Jan 1970" in edge.heads.render(200, (), b"")
    edge._sweep()
    assert b"02 Jan 1970" in edge.heads.render(200, (), b"")
    await edge.drain(0.0)
