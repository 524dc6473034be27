"""Streams do not notice whether a request came by a lane or through the parser.

The whole application is asked both ways; answers and streams are the same, byte for byte.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import hypothesis.strategies as st
from hypothesis import example, given, settings

from millstream.server.connection import Connection
from millstream.server.edge import Edge
from millstream.server.http import Request
from millstream.server.lanes import Lanes
from tests.support.doors import Door, open_door
from tests.support.transport import MemoryTransport

LINES = st.sampled_from(
    [
        *(b"PUT /v1/stream/a", b"POST /v1/stream/a", b"POST /v1/stream/a", b"POST /v1/stream/b"),
        *(b"PUT /v1/stream/b", b"GET /v1/stream/a", b"HEAD /v1/stream/a", b"DELETE /v1/stream/a"),
        *(b"POST /v1/stream/__ds", b"PUT /v1/stream/__ds/x", b"POST /v1/stream/a/", b"POST /v1/x"),
        *(b"PUT http://evil.example/v1/stream/b", b"POST /v1/stream/%61", b"PUT /v1/stream/a?x"),
    ]
)
FIELDS = st.sampled_from(
    [
        *(b"Content-Type: text/plain", b"Content-Type: application/json", b"content-type:x/y;z=1"),
        *(b"Content-Type: text/\xe4", b"Stream-Closed: true", b"Stream-TTL: 60", b"Stream-TTL: x"),
        *(
            b"If-Match: *",
            b"If-Match: x",
            b"Stream-Seq: 5",
            b"Producer-Id: p",
            b"Producer-Epoch: 1",
        ),
        *(b"If-Match: 0000000000000000_0000000000000000", b"Stream-Forked-From: /v1/stream/b"),
        b"Producer-Id: p\r\nProducer-Epoch: 0\r\nProducer-Seq: 0",
    ]
)
BODIES = st.sampled_from([b"", b"1", b"[1]", b"{", b"[1, 2]", b'{"a":1}', b"\xff", b"[]"])


@st.composite
def requests(draw: st.DrawFn) -> list[bytes]:
    """Some requests for streams, over few header blocks."""
    known = draw(
        st.lists(
            st.tuples(st.lists(FIELDS, max_size=2, unique=True), BODIES),
            min_size=1,
            max_size=3,
        )
    )
    made = []
    for line in draw(st.lists(LINES, min_size=1, max_size=5)):
        fields, body = draw(st.sampled_from(known))
        length = b"Content-Length: %d" % len(body)
        lines = b"\r\n".join([line + b" HTTP/1.1", b"Host: x", *fields, length])
        made.append(lines + b"\r\n\r\n" + body)
    return made


class Forgetful(Lanes):
    """Lanes that never learn: every request goes through the parser."""

    __slots__ = ()

    def learn(self, block: bytes, request: Request) -> None:
        """Forget it."""


class Told(MemoryTransport):
    """A transport that tells of each answer."""

    def __init__(self) -> None:
        super().__init__()
        self.has_answer = asyncio.Event()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        super().write(data)
        self.has_answer.set()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        super().writelines(list_of_data)
        self.has_answer.set()


def ask(door: Door, *, is_learning: bool) -> Callable[[bytes], Awaitable[bytes]]:
    """Return a way to send requests to an application and to wait for their answers."""
    limits = door.context.settings
    edge = Edge(limits, door.app, find_lane=door.app.lane, clock=lambda: 0.0)
    if not is_learning:
        edge.lanes = Forgetful(limits.uri_bytes_max, door.app.lane)

    async def answer(request: bytes) -> bytes:
        connection, transport = Connection(edge), Told()
        connection.connection_made(transport)
        connection.data_received(request)
        async with asyncio.timeout(10):
            await transport.has_answer.wait()
        connection.connection_lost(None)
        return transport.sent

    return answer


async def compare_answers(requests_made: list[bytes]) -> None:
    """Send all requests to both, round by round, and compare answers and streams."""
    async with open_door() as short, open_door() as long:
        by_lane, by_parser = ask(short, is_learning=True), ask(long, is_learning=False)
        for number, request in enumerate(requests_made * 4):
            for door in (short, long):
                door.clock.value_ms += 1
            assert await by_lane(request) == await by_parser(request), (number, request)
        for path in ("/v1/stream/a", "/v1/stream/b"):
            found, expected = await short.ask("GET", path), await long.ask("GET", path)
            assert (found.headers, found.body) == (expected.headers, expected.body)
        assert short.asked == long.asked


@settings(max_examples=40)
@given(requests_made=requests())
@example(
    requests_made=[
        b"PUT /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
        b"DELETE /v1/stream/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
    ]
)
def test_streams_do_not_notice_which_way_a_request_came(requests_made: list[bytes]) -> None:
    asyncio.run(compare_answers(requests_made))
