"""The edge with a memory of header blocks and the edge without one cannot be told apart.

Whatever is sent, in whatever pieces, the requests that are handled and the bytes that come back
are the same. Every script is played several times, so that what can be learned is learned, and its
requests share few header blocks, so that what one of them taught is put to use by the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import hypothesis.strategies as st
from hypothesis import example, given, settings

from millstream.server.connection import Connection
from millstream.server.edge import Edge
from millstream.server.http import Reply, Request, Response
from millstream.server.lanes import Block, Lane, LaneReply, Lanes
from millstream.server.settings import Settings
from tests.support.transport import MemoryTransport

LANE_ROOT = b"/s/"
PLAIN = {b"/s/plain": 204, b"/s/made": 201}
LIMITS = Settings(uri_bytes_max=300, header_count_max=8, body_bytes_max=2000)

# The plain thing comes often, so that blocks are learned; the odd ones put them to the test.
METHODS = st.sampled_from(
    [b"POST"] * 8 + [b"GET"] * 4 + [b"HEAD", b"PUT", b"DELETE", b"OPTIONS", b"PATCH", b"get", b""]
)
TARGETS = st.sampled_from([b"/s/plain", b"/a"]) | st.sampled_from(
    [
        *(
            b"/s/refused",
            b"/s/raise",
            b"/s/declined",
            b"/s/made",
            b"/s/plain?",
            b"/s/plain?a=b&c",
            b"/s/",
            b"/",
            b"/a?",
            b"*",
        ),
        *(b"/a?b=%20", b"/%41", b"/a%2", b"//x", b"/a/../b", b"/a#f", b"/a?b?c", b"a", b"x:443"),
        *(b"http://evil.example/a", b"http://evil.example/s/plain", b"HTTPS://other", b"ftp://x/"),
        *(b"", b"/a b", b"/\xff", b"/" + b"l" * 299, b"/" + b"l" * 300, b"http://evil.example/a"),
    ]
)
VERSIONS = st.sampled_from(
    [b" HTTP/1.1"] * 20
    + [b" HTTP/1.0", b" HTTP/1.2", b" HTTP/2.0", b" http/1.1", b"", b" HTTP/1.1 "]
)
BEFORE = st.sampled_from([b""] * 20 + [b"\r\n", b"\n", b"\n\r\n", b"\r", b"G", b"GET ", b" "])
HOSTS = st.sampled_from(
    [b"Host: x"] * 12
    + [b"host:x", b"HOST: \tx \t", b"Host: x:80", b"Host: a b", b"Host:", b"Host : x", b"X-H: x"]
)
FIELDS = st.sampled_from(
    [
        *(b"Content-Type: text/plain", b"content-type:", b"Content-Type:text/plain", b"X-A: 1"),
        *(b"X-A: 2", b"X-A:", b"X-A:  two  words  ", b"X-A : 1", b"\tfolded", b"no colon", b": 1"),
        *(b"X-B: \x01", b"X-B: \xff", b"X-B: a\rb", b"X-B: a\nX-C: b", b"X-B: " + b"b" * 1100),
        *(b"Connection: close", b"Connection: keep-alive", b"Connection: Upgrade", b"Connection:"),
        *(b"Proxy-Connection: close", b"Proxy-Connection: keep-alive", b"Upgrade: h2c"),
        *(b"Connection: upgrade, close", b"Expect: 100-continue", b"Expect: cake", b"TE: trailers"),
        *(b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip", b"Trailer: X-A"),
        *(b"Content-Encoding: gzip", b"Content-Encoding: identity", b"Stream-Closed: true"),
        *(b"Host: y", b"GET / HTTP/1.1", b"Content-Length: 3", b"Origin: http://a"),
        *(b"Connection: Upgrade\r\nUpgrade: h2c", b"Upgrade: h2c\r\nConnection: Upgrade, close"),
    ]
)
LENGTHS = st.sampled_from(
    [b"", b"", b"3", b"3", b"0", b"29", b"05", b"3 ", b"+3", b"x", b"2001", b"9" * 30]
)
BODIES = st.sampled_from(
    [
        *(b"", b"abc", b"12345", b"\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"0\r\nX-T: 1\r\n\r\n"),
        *(b"GET /in HTTP/1.1\r\nHost: x\r\n\r\n", b"abcG", b"abcGET ", b"GET ", b"\n", b"x" * 2001),
    ]
)
DEEDS = st.sampled_from(["answer"] * 3 + ["pause", "resume", "leave", "half close", "stop"])
EMBEDDED = b"GET /in HTTP/1.1\r\nHost: x\r\n\r\n"
Step = bytes | str


class Head(NamedTuple):
    """A block of header fields, from the end of the request line to the blank line."""

    block: bytes
    body_bytes: int
    """What it says of the length of the body, as far as that makes sense."""


@st.composite
def heads(draw: st.DrawFn, odd: frozenset[str]) -> Head:
    """Some header fields."""
    lines = [b"Host: x"]
    length = draw(st.sampled_from([b"", b"3", b"29"]))
    if "head" in odd:
        lines = [draw(HOSTS), *draw(st.lists(FIELDS, max_size=2))]
        length = draw(LENGTHS)
    if length:
        lines.insert(draw(st.integers(0, len(lines))), b"Content-Length: " + length)
    block = b"\r\n" + b"".join(line + b"\r\n" for line in lines) + b"\r\n"
    return Head(block, min(int(length), 3000) if length.isdigit() else 0)


@st.composite
def requests(draw: st.DrawFn, known: list[Head], odd: frozenset[str]) -> bytes:
    """One request, odd only in the ways that `odd` names."""
    head = draw(st.sampled_from(known))
    line = draw(st.sampled_from([b"POST /s/plain HTTP/1.1", b"GET /a HTTP/1.1"]))
    if "line" in odd:
        line = draw(METHODS) + b" " + draw(TARGETS) + draw(VERSIONS)
    body = (EMBEDDED * 200)[: head.body_bytes]
    if "body" in odd and draw(st.booleans()):
        body = draw(BODIES)
    return (draw(BEFORE) if "line" in odd else b"") + line + head.block + body


@st.composite
def scripts(draw: st.DrawFn, known: list[Head], odd: frozenset[str]) -> list[Step]:
    """What happens on one connection: pieces of requests, and deeds of others in between."""
    steps: list[Step] = []
    piece = b""
    for _ in range(draw(st.integers(1, 3))):
        piece += draw(requests(known, odd))
        if "cuts" in odd and draw(st.booleans()):
            if draw(st.booleans()):
                continue  # The next request follows in the same piece.
            cuts = sorted(draw(st.lists(st.integers(0, len(piece)), max_size=3)))
            steps += [piece[a:b] for a, b in pairwise([0, *cuts]) if a < b]
            piece = piece[cuts[-1] :] if cuts else piece
            if draw(st.booleans()):
                continue  # Its end comes with the beginning of the next.
        steps.append(piece)
        piece = b""
        if "deeds" in odd:
            steps += draw(st.lists(DEEDS, max_size=2))
    return [*steps, piece] if piece else steps


@st.composite
def plays(draw: st.DrawFn) -> list[list[Step]]:
    """Some scripts over few header blocks."""
    odd = draw(st.frozensets(st.sampled_from(["head", "line", "body", "cuts", "deeds"])))
    known = draw(st.lists(heads(odd), min_size=1, max_size=2))
    return draw(st.lists(scripts(known, odd), min_size=1, max_size=3))


class Seen(NamedTuple):
    """A request as a handler gets it."""

    method: str
    path: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    query: bytes | None
    peer: str


class Forgetful(Lanes):
    """Lanes that never learn: every request goes through the parser."""

    __slots__ = ()

    def learn(self, block: bytes, request: Request) -> None:
        """Forget it."""


class Side:
    """An edge whose handler tells what it gets, with lanes for POST below their root."""

    def __init__(self, limits: Settings = LIMITS, *, is_learning: bool) -> None:
        self.seen: list[Seen] = []
        self.is_late = False
        self.waiting: deque[Callable[[], None]] = deque()
        self.by_lane = 0
        self.edge = Edge(limits, self._handle, find_lane=self._find_lane, clock=lambda: 0.0)
        if not is_learning:
            self.edge.lanes = Forgetful(limits.uri_bytes_max, self._find_lane)

    def connect(self) -> None:
        """Open a new connection; what waited for an answer on the last one is forgotten."""
        self.waiting.clear()
        self.edge.is_stopping = False
        self.connection = Connection(self.edge)
        self.transport = MemoryTransport()
        self.connection.connection_made(self.transport)

    def take(self, step: Step) -> None:
        """Do what the script says, as far as a real transport could."""
        connection, transport = self.connection, self.transport
        if isinstance(step, bytes):
            if not transport.is_closing() and transport.is_reading():
                connection.data_received(step)
        elif step == "answer":
            if self.waiting:
                self.waiting.popleft()()
        elif step == "pause":
            connection.pause_writing()
        elif step == "resume":
            connection.resume_writing()
        elif step == "half close":
            if not transport.is_closing() and not connection.eof_received():
                transport.close()
        elif step == "leave":
            transport.close()
            connection.connection_lost(None)
        else:
            self.edge.is_stopping = True
            connection.wind_down()

    def state(self) -> object:
        """All that anybody outside can see."""
        at = self.transport
        ends = (at.is_closed, at.is_aborted, at.has_eof, at.is_reading())
        counters = self.edge.counters
        return self.seen, at.sent, ends, len(self.waiting), counters.responses

    def _find_lane(self, method: str, path: bytes) -> Lane | None:
        if method != "POST" or not path.startswith(LANE_ROOT):
            return None

        def lane(block: Block, body: bytes, reply: LaneReply) -> bool:
            if path == b"/s/declined":
                return False
            self.by_lane += 1
            peer = "192.0.2.1"
            self.seen.append(Seen(method, path, list(block.headers.items()), body, None, peer))
            if path == b"/s/raise":
                raise ZeroDivisionError
            if path in PLAIN:
                self._soon(lambda: reply.reply_lines(PLAIN[path], b"at: 1\r\nseen: yes\r\n"))
            else:
                self._soon(lambda: reply.reply(_response(path, body)))
            return True

        return lane

    def _handle(self, request: Request, reply: Reply) -> None:
        query = request.query if request.has_query else None
        fields = list(request.headers.items())
        seen = Seen(request.method, request.path, fields, request.body, query, request.peer)
        self.seen.append(seen)
        if request.path == b"/s/raise":
            raise ZeroDivisionError
        self._soon(lambda: reply.send(_response(request.path, request.body)))

    def _soon(self, answer: Callable[[], None]) -> None:
        if self.is_late:
            self.waiting.append(answer)
        else:
            answer()


def _response(path: bytes, body: bytes) -> Response:
    if path in PLAIN:
        return Response(PLAIN[path], ((b"at", b"1"), (b"seen", b"yes")))
    if path == b"/s/refused":
        return Response(409, ((b"content-type", b"text/plain"),), b"no: " + body)
    return Response(200, ((b"etag", b'"1"'),), [path, b" ", body])


async def play(scripts_of_all: list[list[Step]], *, is_late: bool, rounds: int = 4) -> Side:
    """Play all scripts to both edges, round by round, and compare after every step."""
    short, long = Side(is_learning=True), Side(is_learning=False)
    short.is_late = long.is_late = is_late
    for number in range(rounds * len(scripts_of_all)):
        short.connect()
        long.connect()
        # A script twice on one connection: what it leaves behind meets its own beginning.
        for step in scripts_of_all[number % len(scripts_of_all)] * 2:
            short.take(step)
            long.take(step)
            assert short.state() == long.state(), step
        while long.waiting:
            short.take("answer")
            long.take("answer")
        assert short.state() == long.state()
        short.connection.connection_lost(None)
        long.connection.connection_lost(None)
    assert long.by_lane == 0
    assert long.edge.lanes.blocks == {}
    return short


GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /s/plain HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"


@settings(max_examples=150)
@given(all_scripts=plays(), is_late=st.booleans())
@example(
    all_scripts=[[b"GET http://evil.example/ HTTP/1.1\r\nHost: x\r\n\r\n"], [GET]], is_late=False
)
@example(all_scripts=[[GET, GET + b"GET ", GET]], is_late=False)
@example(all_scripts=[[b"\n\r\n" + GET], [b"GET /a HTTP/1.1\r\n" + GET]], is_late=False)
@example(all_scripts=[[GET.replace(b"Host", b"Proxy-Connection: close\r\nHost")]], is_late=False)
@example(all_scripts=[[GET + POST], [GET]], is_late=False)
@example(all_scripts=[[POST, POST, GET, POST + POST, POST[:-1], b"c"]], is_late=True)
def test_a_memory_of_header_blocks_changes_nothing(
    all_scripts: list[list[Step]], *, is_late: bool
) -> None:
    asyncio.run(play(all_scripts, is_late=is_late))


def test_what_is_compared_does_go_by_the_lane() -> None:
    side = asyncio.run(play([[POST]], is_late=False))
    assert side.by_lane == 6
    assert len(side.seen) == 8
