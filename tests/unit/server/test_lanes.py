import pytest

from millstream.server import lanes as module
from millstream.server.connection import Connection
from millstream.server.edge import Edge
from millstream.server.http import Reply, Request, Response
from millstream.server.lanes import Block, Lane, LaneReply, Lanes
from millstream.server.settings import Settings
from tests.support.transport import MemoryTransport

pytestmark = pytest.mark.anyio

BLOCK = b"\r\nHost: x\r\n\r\n"
GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
POST = b"POST /lane HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
ADDED = b"offset: 1\r\n"


def request(body: bytes = b"", **fields: str) -> Request:
    names = {name.replace("_", "-").encode(): value.encode() for name, value in fields.items()}
    return Request("POST", b"/a", {b"host": b"x", **names}, body)


def lane(_block: Block, _body: bytes, _reply: LaneReply) -> bool:
    raise AssertionError("nothing is sent in these tests")


@pytest.mark.parametrize(
    "raw, method, path, query",
    [
        (b"GET / HTTP/1.1", "GET", b"/", None),
        (b"POST /v1/stream/a-b_c.d~e HTTP/1.1", "POST", b"/v1/stream/a-b_c.d~e", None),
        (b"HEAD //a/../b HTTP/1.1", "HEAD", b"//a/../b", None),
        (b"PUT /a? HTTP/1.1", "PUT", b"/a", b""),
        (b"DELETE /a?b=c&d HTTP/1.1", "DELETE", b"/a", b"b=c&d"),
    ],
)
def test_a_plain_line_is_taken_apart(
    raw: bytes, method: str, path: bytes, query: bytes | None
) -> None:
    line = Lanes(8192).line(raw)
    assert line is not None
    assert (line.method, line.path, line.query, line.lane) == (method, path, query, None)


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b"GET", b"GET /a", b"GET  /a HTTP/1.1", b"GET /a HTTP/1.1 ", b" GET /a HTTP/1.1"),
        *(b"get /a HTTP/1.1", b"PATCH /a HTTP/1.1", b"OPTIONS * HTTP/1.1", b"CONNECT x:1 HTTP/1.1"),
        *(b"GET /a HTTP/1.0", b"GET /a HTTP/1.10", b"GET /a http/1.1", b"GET /a HTTP/2.0"),
        *(b"GET http://x/a HTTP/1.1", b"GET a HTTP/1.1", b"GET * HTTP/1.1", b"GET /a#b HTTP/1.1"),
        *(b"GET /%41 HTTP/1.1", b"GET /a?b=%20 HTTP/1.1", b"GET /a?b?c HTTP/1.1"),
        *(b"GET /\xe4 HTTP/1.1", b"GET /a\tb HTTP/1.1", b"GET /a HTTP/1.1\n", b"\nGET /a HTTP/1.1"),
    ],
)
def test_any_other_line_is_for_the_parser(raw: bytes) -> None:
    assert Lanes(8192, lambda _method, _path: lane).line(raw) is None


def test_a_line_longer_than_a_target_may_be_is_for_the_parser() -> None:
    assert Lanes(64).line(b"GET /%b HTTP/1.1" % (b"a" * 50)) is not None
    assert Lanes(64).line(b"GET /%b HTTP/1.1" % (b"a" * 51)) is None
    assert Lanes(8192).line(b"GET /%b HTTP/1.1" % (b"a" * 498)) is not None
    assert Lanes(8192).line(b"GET /%b HTTP/1.1" % (b"a" * 499)) is None


def test_the_way_of_a_line_is_asked_for_once_and_never_with_a_query() -> None:
    asked: list[tuple[str, bytes]] = []

    def find(method: str, path: bytes) -> Lane | None:
        asked.append((method, path))
        return lane if method == "POST" else None

    lanes = Lanes(8192, find)
    for _ in range(2):
        post, get = lanes.line(b"POST /a HTTP/1.1"), lanes.line(b"GET /a HTTP/1.1")
        queried = lanes.line(b"POST /a? HTTP/1.1")
        assert post is not None
        assert get is not None
        assert queried is not None
        assert (post.lane, get.lane, queried.lane) == (lane, None, None)
    assert asked == [("POST", b"/a"), ("GET", b"/a")]


def test_a_block_is_known_from_its_second_time_on() -> None:
    lanes = Lanes(8192)
    lanes.learn(BLOCK, request(b"abc", content_length="3"))
    assert lanes.blocks == {}
    lanes.learn(BLOCK, request(b"xyz", content_length="3"))
    block = lanes.blocks[BLOCK]
    assert (block.headers, block.body_bytes) == ({b"host": b"x", b"content-length": b"3"}, 3)
    assert (block.append_terms, block.create_terms) == (None, None)


@pytest.mark.parametrize(
    "name", [b"connection", b"expect", b"transfer-encoding", b"upgrade", b"te", b"trailer"]
)
def test_a_block_whose_meaning_reaches_beyond_it_is_never_known(name: bytes) -> None:
    lanes = Lanes(8192)
    for _ in range(3):
        lanes.learn(BLOCK, Request("GET", b"/a", {b"host": b"x", name: b"x"}))
    assert lanes.blocks == {}


def test_a_long_block_leaves_nothing_behind() -> None:
    lanes = Lanes(8192)
    fits, too_long = b"x" * 1024, b"x" * 1025
    for _ in range(2):
        lanes.learn(fits, request())
        lanes.learn(too_long, request())
    assert list(lanes.blocks) == [fits]
    assert lanes._glimpsed == {hash(fits)}


def test_the_memory_has_bounds_and_goes_on_beyond_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KNOWN_MAX", 8)
    monkeypatch.setattr(module, "_GLIMPSED_MAX", 16)
    lanes = Lanes(8192)
    for number in range(100):
        raw = b"GET /%d HTTP/1.1" % number
        assert lanes.line(raw) is lanes.line(raw)
        block = b"\r\nHost: %d\r\n\r\n" % number
        lanes.learn(block, request())
        lanes.learn(block, request())
        assert block in lanes.blocks
        assert (len(lanes._lines) <= 8, len(lanes.blocks) <= 8) == (True, True)
        assert len(lanes._glimpsed) <= 16


def test_blocks_that_come_once_push_out_no_block_that_is_known() -> None:
    lanes = Lanes(8192)
    for _ in range(2):
        lanes.learn(BLOCK, request())
    for number in range(20_000):
        lanes.learn(b"%d" % number, request())
    assert list(lanes.blocks) == [BLOCK]
    assert len(lanes._glimpsed) <= 8192


class Toll:
    """A lane for POST that keeps what it takes; the connection knows the blocks of POST and GET."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.taken: list[tuple[bytes, bytes, LaneReply]] = []
        self.handled: list[Request] = []
        self.raised: Exception | None = None
        self.is_declining = False
        edge = Edge(settings or Settings(), self._handle, find_lane=self._find)
        self.connection = Connection(edge)
        self.transport = MemoryTransport()
        self.connection.connection_made(self.transport)
        for request in (GET, POST) * 2:
            self.connection.data_received(request)
        assert len(edge.lanes.blocks) == 2
        self.parsed_answer = self.transport.writes[1]
        self.forget()

    def forget(self) -> None:
        self.handled.clear()
        self.transport.writes.clear()

    def answer(self) -> None:
        self.taken.pop(0)[2].reply_lines(204, ADDED)

    def _find(self, method: str, path: bytes) -> Lane | None:
        return self._take if (method, path) == ("POST", b"/lane") else None

    def _take(self, block: Block, body: bytes, reply: LaneReply) -> bool:
        if self.is_declining:
            return False
        self.taken.append((block.headers[b"host"], body, reply))
        if self.raised is not None:
            raise self.raised
        return True

    def _handle(self, request: Request, reply: Reply) -> None:
        self.handled.append(request)
        reply.send(Response(204, ((b"offset", b"1"),)))


async def test_a_request_by_the_lane_is_answered_just_as_any_other() -> None:
    toll = Toll()
    toll.connection.data_received(POST)
    assert [item[:2] for item in toll.taken] == [(b"x", b"abc")]
    toll.answer()
    assert toll.transport.sent == toll.parsed_answer
    assert toll.handled == []


async def test_a_known_block_without_a_lane_goes_to_the_handler() -> None:
    toll = Toll()
    toll.connection.data_received(GET.replace(b"/a", b"/b?c"))
    (request,) = toll.handled
    assert (request.method, request.path, request.query) == ("GET", b"/b", b"c")
    assert (request.headers, request.body, request.peer) == ({b"host": b"x"}, b"", "192.0.2.1")


async def test_a_request_that_its_lane_declines_goes_to_the_handler() -> None:
    toll = Toll()
    toll.is_declining = True
    for _ in range(2):
        toll.connection.data_received(POST)
    assert toll.transport.sent == toll.parsed_answer * 2
    assert [(request.path, request.body) for request in toll.handled] == [(b"/lane", b"abc")] * 2


async def test_requests_behind_a_lane_wait_for_its_answer() -> None:
    toll = Toll()
    for request in (POST, GET, POST):
        toll.connection.data_received(request)
    assert (len(toll.taken), toll.handled, toll.transport.writes) == (1, [], [])
    toll.taken.pop(0)[2].reply(Response(409, (), b"no"))
    assert [request.method for request in toll.handled] == ["GET", "POST"]
    assert [part[:3] for part in toll.transport.sent.split(b"HTTP/1.1 ")[1:]] == [
        *(b"409", b"204", b"204")
    ]


async def test_a_client_that_left_its_lane_gets_nothing_and_counts_for_nothing() -> None:
    toll = Toll()
    toll.connection.data_received(POST)
    counted = list(toll.connection.edge.counters.responses)
    toll.connection.connection_lost(None)
    reply = toll.taken[0][2]
    reply.reply_lines(204, ADDED)
    reply.reply(Response(500))
    assert toll.transport.writes == []
    assert toll.connection.edge.counters.responses == counted


async def test_a_second_answer_by_a_lane_is_not_sent() -> None:
    toll = Toll()
    toll.connection.data_received(POST)
    reply = toll.taken[0][2]
    for _ in range(2):
        reply.reply_lines(204, ADDED)
        reply.reply(Response(500))
    assert toll.transport.sent.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("is_plain", [True, False])
async def test_an_answer_by_a_lane_to_a_server_that_stops_is_the_last(is_plain: bool) -> None:
    toll = Toll()
    toll.connection.data_received(POST)
    toll.connection.edge.is_stopping = True
    toll.connection.wind_down()
    assert not toll.transport.is_closed
    reply = toll.taken[0][2]
    if is_plain:
        reply.reply_lines(204, ADDED)
    else:
        reply.reply(Response(204, ((b"offset", b"1"),)))
    assert toll.transport.sent.endswith(b"\r\noffset: 1\r\nconnection: close\r\n\r\n")
    assert toll.transport.is_closed


async def test_a_lane_that_fails_is_a_500_and_the_connection_goes_on() -> None:
    toll = Toll()
    toll.raised = ZeroDivisionError()
    toll.connection.data_received(POST)
    assert toll.transport.sent.startswith(b"HTTP/1.1 500 ")
    assert b"connection: close" not in toll.transport.sent
    toll.forget()
    toll.connection.data_received(GET)
    assert toll.transport.sent.startswith(b"HTTP/1.1 204 ")


async def test_a_lane_that_fails_after_its_answer_gives_no_second_one() -> None:
    toll = Toll()

    def answer_and_fail(_block: Block, _body: bytes, reply: LaneReply) -> bool:
        reply.reply_lines(204, ADDED)
        raise ZeroDivisionError

    toll.connection.edge.lanes.line(POST.partition(b"\r\n")[0]).lane = answer_and_fail  # type: ignore[union-attr]
    toll.connection.data_received(POST)
    assert toll.transport.sent.count(b"HTTP/1.1 ") == 1


async def test_a_body_that_is_not_as_long_as_the_block_says_is_for_the_parser() -> None:
    toll = Toll()
    toll.connection.data_received(POST[:-1])
    assert (toll.taken, toll.handled) == ([], [])
    toll.connection.data_received(b"c" + GET + b"G")
    assert [request.body for request in toll.handled] == [b"abc", b""]
    toll.connection.data_received(GET[1:] + POST)
    assert [request.method for request in toll.handled] == ["POST", "GET", "GET", "POST"]
    assert toll.taken == []


async def test_an_absolute_target_teaches_nobody_its_host() -> None:
    toll = Toll()
    toll.connection.edge.lanes.blocks.clear()
    for _ in range(3):
        toll.connection.data_received(GET.replace(b"/a", b"http://evil.example/a"))
    toll.connection.data_received(GET)
    hosts = [request.host for request in toll.handled]
    assert hosts == ["evil.example"] * 3 + ["x"]


@pytest.mark.parametrize(
    "line", [b"GET /a HTTP/1.0", b"\n\r\nGET /a HTTP/1.1", b"GET /%41 HTTP/1.1"]
)
async def test_only_plain_requests_teach(line: bytes) -> None:
    toll = Toll()
    toll.connection.edge.lanes.blocks.clear()
    toll.connection.data_received(GET.replace(b"GET /a HTTP/1.1", line))
    assert len(toll.handled) == 1
    assert toll.connection.edge.lanes.blocks == {}


async def test_a_block_is_learned_from_its_own_request_and_not_from_the_next() -> None:
    toll = Toll()
    toll.connection.edge.lanes.blocks.clear()
    toll.connection.data_received(GET + POST)
    (block,) = toll.connection.edge.lanes.blocks.values()
    assert (block.headers, block.body_bytes) == ({b"host": b"x"}, 0)


async def test_a_block_that_ends_its_connection_in_words_of_a_proxy_is_not_learned() -> None:
    toll = Toll()
    edge = toll.connection.edge
    edge.lanes.blocks.clear()
    for _ in range(3):
        connection, transport = Connection(edge), MemoryTransport()
        connection.connection_made(transport)
        connection.data_received(GET.replace(b"Host", b"Proxy-Connection: close\r\nHost"))
        assert b"connection: close" in transport.sent
    assert edge.lanes.blocks == {}


async def test_no_lane_is_taken_while_the_client_does_not_read() -> None:
    toll = Toll()
    toll.connection.pause_writing()
    toll.connection.data_received(POST)
    assert (toll.taken, toll.handled) == ([], [])
    toll.connection.resume_writing()
    assert len(toll.handled) == 1
    toll.connection.data_received(POST)
    toll.connection.pause_writing()
    toll.connection.resume_writing()
    toll.answer()
    assert toll.transport.sent.count(b"HTTP/1.1 204 ") == 2


async def test_a_half_closed_client_gets_the_answer_of_its_lane() -> None:
    toll = Toll()
    toll.connection.data_received(POST)
    assert toll.connection.eof_received()
    toll.answer()
    assert b"offset: 1" in toll.transport.sent
    assert toll.transport.is_closed


async def test_an_answer_by_a_lane_that_cannot_be_sent_is_a_500() -> None:
    toll = Toll()
    toll.connection.data_received(POST)
    toll.taken[0][2].reply(Response(200, ((b"a", b"b\r\nc: d"),)))
    assert toll.transport.sent.startswith(b"HTTP/1.1 500 ")


async def test_a_lane_may_take_its_time_and_idleness_begins_after_it() -> None:
    toll = Toll()
    toll.connection.data_received(POST)
    edge = toll.connection.edge
    edge.now += 100_000
    assert toll.connection.deadline > edge.now
    toll.answer()
    assert toll.connection.deadline == edge.now + edge.idle_s


async def test_with_origins_configured_no_lane_is_taken() -> None:
    toll = Toll(Settings(cors_origins=("*",)))
    toll.connection.data_received(POST)
    assert (toll.taken, len(toll.handled)) == ([], 1)
    assert b"access-control-allow-origin: *\r\n" in toll.transport.sent
