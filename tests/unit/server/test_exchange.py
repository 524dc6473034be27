import asyncio

import pytest

from millstream.server.exchange import TAKEN
from millstream.server.http import Reply, Request, Response, Sink
from tests.support.transport import MemoryTransport, connect

pytestmark = pytest.mark.anyio

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


def streaming() -> tuple[list[Sink], MemoryTransport, list[str]]:
    """Start a streamed answer; the last value tells what the handler was told."""
    sinks: list[Sink] = []
    told: list[str] = []

    def handler(_request: Request, reply: Reply) -> None:
        sink = reply.start(200, ((b"content-type", b"text/event-stream"),))
        sink.on_disconnect(lambda: told.append("gone"))
        sink.on_drain(lambda: told.append("drained"))
        sinks.append(sink)

    connection, transport, _ = connect(handler)
    connection.data_received(GET)
    transport.writes.clear()
    transport.connection = connection  # type: ignore[attr-defined]
    return sinks, transport, told


async def test_the_same_bytes_for_many_readers_are_framed_once() -> None:
    (one,), first, _ = streaming()
    (two,), second, _ = streaming()
    event = b"data: x\n\n"
    one.write(event)
    two.write(event)
    assert first.writes == second.writes == [b"9\r\ndata: x\n\n\r\n"]
    one.write(b"other")
    assert first.writes[-1] == b"5\r\nother\r\n"


async def test_an_empty_write_does_not_end_the_body() -> None:
    (sink,), transport, _ = streaming()
    sink.write(b"")
    assert transport.writes == []
    sink.close()
    sink.close()
    sink.write(b"late")
    assert transport.writes == [b"0\r\n\r\n"]


async def test_a_sink_follows_the_transport() -> None:
    (sink,), transport, told = streaming()
    transport.unsent_bytes = 77
    connection = transport.connection  # type: ignore[attr-defined]
    connection.pause_writing()
    assert (sink.buffered, sink.is_paused) == (77, True)
    connection.resume_writing()
    assert not sink.is_paused
    assert told == ["drained"]


async def test_a_sink_whose_client_has_gone_swallows_everything() -> None:
    (sink,), transport, told = streaming()
    transport.connection.connection_lost(None)  # type: ignore[attr-defined]
    sink.write(b"x")
    sink.close()
    assert transport.writes == []
    assert told == ["gone"]
    sink.on_disconnect(lambda: told.append("at once"))
    assert told == ["gone", "at once"]
    assert (sink.buffered, sink.is_paused) == (0, False)


async def test_a_properly_ended_body_is_no_disconnection() -> None:
    (sink,), transport, told = streaming()
    sink.close()
    transport.connection.connection_lost(None)  # type: ignore[attr-defined]
    assert told == []


async def test_a_coroutine_is_cancelled_when_its_client_leaves() -> None:
    started, cancelled = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            cancelled.set()

    connection, _, _ = connect(lambda _request, reply: reply.spawn(work()))
    connection.data_received(GET)
    await started.wait()
    connection.connection_lost(None)
    await cancelled.wait()


async def test_a_failure_after_the_start_cuts_the_body_short() -> None:
    def handler(_request: Request, reply: Reply) -> None:
        reply.start(200, ()).write(b"half")
        raise ZeroDivisionError

    connection, transport, _ = connect(handler)
    connection.data_received(GET)
    assert transport.is_aborted
    assert b"0\r\n\r\n" not in transport.sent


async def test_a_callback_that_fails_does_not_keep_the_others_from_being_told() -> None:
    told: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    def handler(_request: Request, reply: Reply) -> None:
        reply.on_disconnect(fail)
        reply.on_disconnect(lambda: told.append("gone"))

    connection, _, _ = connect(handler)
    connection.data_received(GET)
    connection.connection_lost(None)
    assert told == ["gone"]


async def test_an_answered_request_does_not_hear_of_a_later_disconnection() -> None:
    told: list[str] = []

    def handler(_request: Request, reply: Reply) -> None:
        reply.on_disconnect(lambda: told.append("gone"))
        reply.send(Response(204))
        assert not reply.is_disconnected

    connection, _, _ = connect(handler)
    connection.data_received(GET)
    connection.connection_lost(None)
    assert told == []


def test_a_request_that_a_lane_has_taken_streams_nothing_and_hears_nothing() -> None:
    assert not TAKEN.is_streaming
    TAKEN.drain()
    TAKEN.disconnect()
