"""The handlers behind an ASGI server answer as they do behind our own edge."""

import asyncio

import pytest

from millstream.server.asgi import AsgiApp
from millstream.server.http import Reply, Request, Response, Sink
from millstream.server.settings import Settings
from tests.support.asgi import Call, http

pytestmark = pytest.mark.anyio


def echo(request: Request, reply: Reply) -> None:
    said = b"|".join((request.method.encode(), request.path, request.query, request.body))
    reply.send(Response(200, ((b"x-it", b"is"),), [said]))


async def test_a_request_arrives_whole_and_its_answer_too() -> None:
    call = await http(AsgiApp(echo, Settings()), "POST", "/a%20b?c=d", b"body").end()
    assert call.status == 200
    assert call.body == b"POST|/a%20b|c=d|body"
    assert call.headers[b"x-it"] == b"is"
    assert call.headers[b"x-content-type-options"] == b"nosniff"
    assert call.headers[b"content-length"] == b"20"


async def test_a_body_above_the_limit_is_refused() -> None:
    call = await http(AsgiApp(echo, Settings(body_bytes_max=3)), "POST", "/a", b"four").end()
    assert call.status == 413


async def test_a_header_that_must_be_single_may_not_be_repeated() -> None:
    twice = ((b"producer-id", b"a"), (b"producer-id", b"b"))
    assert (await http(AsgiApp(echo, Settings()), "GET", "/a", headers=twice).end()).status == 400
    fine = ((b"accept", b"a"), (b"accept", b"b"))
    assert (await http(AsgiApp(echo, Settings()), "GET", "/a", headers=fine).end()).status == 200


@pytest.mark.parametrize("method, status", [("HEAD", 200), ("GET", 204), ("GET", 304)])
async def test_what_has_no_body_sends_none(method: str, status: int) -> None:
    def handler(_request: Request, reply: Reply) -> None:
        reply.send(Response(status, (), b"hidden"))

    call = await http(AsgiApp(handler, Settings()), method, "/a").end()
    assert (call.status, call.body) == (status, b"")
    assert b"content-length" not in call.headers


async def test_cors_is_answered_here_as_at_the_edge() -> None:
    app = AsgiApp(echo, Settings(cors_origins=("https://a.test",)))
    origin = ((b"origin", b"https://a.test"),)
    plain = await http(app, "GET", "/a", headers=origin).end()
    assert plain.headers[b"access-control-allow-origin"] == b"https://a.test"
    preflight = await http(app, "OPTIONS", "/a", headers=origin).end()
    assert preflight.status == 204
    assert b"access-control-allow-methods" in preflight.headers


async def test_a_handler_that_raises_is_answered_500() -> None:
    async def fail() -> None:
        raise ValueError

    def handler(_request: Request, reply: Reply) -> None:
        reply.spawn(fail())

    assert (await http(AsgiApp(handler, Settings()), "GET", "/a").end()).status == 500


class Streaming:
    """A handler whose body the test writes."""

    def __init__(self) -> None:
        self.sink: Sink
        self.gone = asyncio.Event()
        self.drained = asyncio.Event()

    def __call__(self, _request: Request, reply: Reply) -> None:
        self.sink = reply.start(200, ())
        self.sink.on_disconnect(self.gone.set)
        self.sink.on_drain(self.drained.set)


async def begun(handler: Streaming) -> Call:
    call = http(AsgiApp(handler, Settings()), "GET", "/a")
    await call.next_sent(1)
    return call


async def test_a_body_is_carried_as_it_is_written() -> None:
    handler = Streaming()
    call = await begun(handler)
    handler.sink.write(b"one")
    await call.next_sent(2)
    handler.sink.write(b"two")
    handler.sink.close()
    await call.end()
    assert call.body == b"onetwo"
    assert call.sent[-1]["more_body"] is False


async def test_a_slow_client_pauses_the_writer_until_it_has_caught_up() -> None:
    handler = Streaming()
    call = await begun(handler)
    call.may_send.clear()
    handler.sink.write(b"x" * 300_000)
    assert [handler.sink.is_paused] == [True]
    call.may_send.set()
    async with asyncio.timeout(10):
        await handler.drained.wait()
    assert [handler.sink.is_paused] == [False]
    handler.sink.close()
    await call.end()


async def test_a_client_that_leaves_is_noticed() -> None:
    handler = Streaming()
    call = await begun(handler)
    call.leave()
    async with asyncio.timeout(10):
        await handler.gone.wait()
    await call.end()
