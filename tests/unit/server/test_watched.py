import pytest

from millstream.server.edge import Edge
from millstream.server.http import Reply, Request
from millstream.server.settings import Settings
from millstream.server.watched import NEVER, Watched
from tests.support.transport import MemoryTransport

pytestmark = pytest.mark.anyio


def watched(unsent_bytes: int = 0, edge: Edge | None = None) -> tuple[Watched, MemoryTransport]:
    def handler(_request: Request, _reply: Reply) -> None:
        raise AssertionError("nothing is asked in these tests")

    connection = Watched(edge or Edge(Settings(write_stall_ms=30_000), handler))
    connection.transport = transport = MemoryTransport()
    transport.unsent_bytes = unsent_bytes
    return connection, transport


async def test_nothing_is_due_before_anything_was_sent_or_asked() -> None:
    connection, _ = watched()
    assert (connection.deadline, connection.stall_at) == (NEVER, NEVER)
    assert not connection.is_write_paused


async def test_a_client_that_stops_reading_has_some_time_to_go_on() -> None:
    connection, _ = watched(1000)
    connection.pause_writing()
    assert connection.is_write_paused
    assert connection.stall_at == connection.edge.now + 30
    connection.resume_writing()
    assert (connection.is_write_paused, connection.stall_at) == (False, NEVER)


async def test_only_fewer_unsent_bytes_are_progress_and_give_more_time() -> None:
    connection, transport = watched(1000)
    connection.pause_writing()
    now = connection.edge.now
    assert not connection._is_making_progress(now + 10)
    transport.unsent_bytes = 1001
    assert not connection._is_making_progress(now + 10)
    assert connection.stall_at == now + 30
    transport.unsent_bytes = 999
    assert connection._is_making_progress(now + 20)
    assert connection.stall_at == now + 50
    assert not connection._is_making_progress(now + 20)


async def test_a_client_that_has_read_all_is_not_watched_any_more() -> None:
    connection, transport = watched(1)
    connection.pause_writing()
    transport.unsent_bytes = 0
    assert connection._is_making_progress(connection.edge.now)
    assert connection.stall_at == NEVER


async def test_all_connections_together_are_charged_for_what_each_holds() -> None:
    one, _ = watched()
    other, _ = watched(edge=one.edge)
    for connection, held_bytes in ((one, 100), (other, 50), (one, 70)):
        connection._charge(held_bytes)
    assert one.edge.body_bytes_held == 120
    one._charge(0)
    one._charge(0)
    assert one.edge.body_bytes_held == 50
