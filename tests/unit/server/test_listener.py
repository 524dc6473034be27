import asyncio
import resource

import pytest

from millstream.server.edge import Edge
from millstream.server.http import Reply, Request, Response
from millstream.server.listener import Listener, ensure_descriptors
from millstream.server.settings import Settings

pytestmark = pytest.mark.anyio


def empty(_request: Request, reply: Reply) -> None:
    reply.send(Response(204))


async def test_a_started_listener_knows_its_url_and_stops_cleanly() -> None:
    listener = Listener(Edge(Settings(port=0), empty))
    await listener.start()
    assert listener.url == f"http://127.0.0.1:{listener.port}"
    reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 204")
    writer.close()
    assert await listener.stop() == 0


async def test_stopping_tells_everybody_even_if_one_fails() -> None:
    told: list[str] = []

    def fail() -> None:
        raise ZeroDivisionError

    listener = Listener(Edge(Settings(port=0), empty))
    listener.on_stopping(fail)
    listener.on_stopping(lambda: told.append("stopping"))
    await listener.start()
    await listener.stop()
    assert told == ["stopping"]


async def test_a_listener_that_was_never_started_has_no_port_and_nothing_to_stop() -> None:
    listener = Listener(Edge(Settings(port=0), empty))
    with pytest.raises(RuntimeError):
        _ = listener.port
    assert await listener.stop() == 0


async def test_an_address_in_use_is_an_error() -> None:
    first = Listener(Edge(Settings(port=0), empty))
    await first.start()
    with pytest.raises(OSError, match="in use"):
        await Listener(Edge(Settings(port=first.port), empty)).start()
    await first.stop()


async def test_too_few_descriptors_are_raised_or_complained_about(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    limits: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, pair: limits.append(pair))
    ensure_descriptors(Settings(connections_max=10))
    assert limits == [(522, 1000)]
    assert caplog.records == []
    ensure_descriptors(Settings(connections_max=10_000))
    assert limits[1] == (1000, 1000)
    assert "ulimit" in caplog.text
