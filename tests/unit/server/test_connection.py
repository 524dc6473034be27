import pytest

from millstream.server.http import Reply, Request, Response
from millstream.server.settings import Settings
from tests.support.transport import connect

pytestmark = pytest.mark.anyio

GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


class Holder:
    """Keeps requests until the test answers them."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Request, Reply]] = []

    def __call__(self, request: Request, reply: Reply) -> None:
        self.waiting.append((request, reply))

    def answer(self, status: int = 200) -> None:
        request, reply = self.waiting.pop(0)
        reply.send(Response(status, (), request.path))


def echo(request: Request, reply: Reply) -> None:
    reply.send(Response(200, (), request.path))


async def test_answers_of_one_read_are_sent_in_one_write() -> None:
    connection, transport, _ = connect(echo)
    connection.data_received(GET * 5)
    assert len(transport.writes) == 1
    assert transport.sent.count(b"HTTP/1.1 200") == 5


async def test_one_request_is_handled_at_a_time() -> None:
    holder = Holder()
    connection, transport, _ = connect(holder)
    connection.data_received(GET * 3)
    for answered in range(3):
        assert len(holder.waiting) == 1
        assert transport.sent.count(b"HTTP/1.1 200") == answered
        holder.answer()


async def test_reading_stops_while_too_many_requests_wait_and_goes_on_after() -> None:
    holder = Holder()
    connection, transport, _ = connect(holder)
    connection.data_received(GET * 2000)
    assert not transport.is_reading()
    for _ in range(2000):
        holder.answer()
    assert transport.is_reading()
    assert transport.sent.count(b"HTTP/1.1 200") == 2000
    assert holder.waiting == []


async def test_reading_stops_while_too_many_body_bytes_wait() -> None:
    holder = Holder()
    connection, transport, _ = connect(holder)
    body = bytes(700_000)
    post = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 700000\r\n\r\n" + body
    connection.data_received(GET + post)
    assert transport.is_reading()
    connection.data_received(post)
    assert not transport.is_reading()


async def test_nothing_is_handled_while_the_client_does_not_read() -> None:
    connection, transport, _ = connect(echo)
    connection.pause_writing()
    connection.data_received(GET * 2)
    assert transport.writes == []
    connection.resume_writing()
    assert transport.sent.count(b"HTTP/1.1 200") == 2


async def test_a_refusal_waits_for_the_answers_before_it() -> None:
    holder = Holder()
    connection, transport, _ = connect(holder)
    connection.data_received(GET + GET + b"rubbish\r\n\r\n")
    assert transport.writes == []
    holder.answer()
    holder.answer()
    statuses = [line.split()[1] for line in transport.sent.split(b"\r\n") if b"HTTP/1.1 " in line]
    assert statuses[:3] == [b"200", b"200", b"400"]
    assert transport.has_eof
    assert not transport.is_closed


async def test_a_refused_client_is_cut_if_it_does_not_close() -> None:
    connection, transport, pass_time = connect(echo)
    connection.data_received(b"rubbish\r\n\r\n")
    connection.data_received(b"more, unread")
    pass_time(1.0)
    assert not transport.is_aborted
    pass_time(5.0)
    assert transport.is_aborted


async def test_an_idle_connection_is_closed_in_time() -> None:
    connection, transport, pass_time = connect(echo)
    connection.data_received(GET)
    pass_time(59.0)
    assert not transport.is_closed
    pass_time(2.0)
    assert transport.is_closed


async def test_a_handler_may_take_longer_than_any_deadline() -> None:
    holder = Holder()
    connection, transport, pass_time = connect(holder)
    connection.data_received(GET)
    pass_time(100_000.0)
    assert not transport.is_closing()
    holder.answer()
    assert b"HTTP/1.1 200" in transport.sent


async def test_the_header_deadline_runs_from_the_first_byte_and_is_not_extended() -> None:
    connection, transport, pass_time = connect(echo)
    for byte in b"GET /a HTTP":
        connection.data_received(bytes([byte]))
        pass_time(0.9)
    assert transport.writes == []
    connection.data_received(b"/")
    pass_time(0.9)
    assert transport.sent.startswith(b"HTTP/1.1 408 ")


async def test_a_body_must_keep_the_least_rate() -> None:
    settings = Settings(body_ms=1000, body_bytes_per_s_min=1000)
    connection, transport, pass_time = connect(echo, settings)
    connection.data_received(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n")
    for _ in range(4):
        connection.data_received(bytes(1000))
        pass_time(1.0)
    assert transport.writes == []
    pass_time(1.5)
    assert transport.sent.startswith(b"HTTP/1.1 408 ")


async def test_a_client_we_do_not_read_from_is_not_blamed_for_being_slow() -> None:
    holder = Holder()
    connection, transport, pass_time = connect(holder)
    connection.data_received(GET * 20 + b"GET /a HT")
    assert not transport.is_reading()
    pass_time(1000.0)
    assert not transport.is_closing()
    while holder.waiting:
        holder.answer()
    assert transport.is_reading()
    pass_time(9.0)
    connection.data_received(b"TP/1.1\r\nHost: x\r\n\r\n")
    holder.answer()
    assert b" 408 " not in transport.sent
    assert transport.sent.count(b"HTTP/1.1 200") == 21


async def test_a_reader_that_makes_progress_is_not_cut() -> None:
    connection, transport, pass_time = connect(echo)
    transport.unsent_bytes = 1000
    connection.pause_writing()
    for left in (900, 800, 700):
        transport.unsent_bytes = left
        pass_time(31.0)
        assert not transport.is_aborted
    pass_time(31.0)
    assert transport.is_aborted


async def test_an_idle_connection_with_an_unread_answer_is_cut() -> None:
    connection, transport, pass_time = connect(echo)
    connection.data_received(GET)
    transport.unsent_bytes = 10
    pass_time(61.0)
    assert not transport.is_aborted
    pass_time(31.0)
    assert transport.is_aborted


async def test_a_slow_reader_gets_its_last_answer_whole() -> None:
    connection, transport, pass_time = connect(echo)
    connection.data_received(b"GET /a HTTP/1.0\r\n\r\n")
    assert transport.is_closed
    for left in (900, 800, 700, 600):
        transport.unsent_bytes = left
        pass_time(29.0)
        assert not transport.is_aborted
    transport.unsent_bytes = 0
    pass_time(1000.0)
    pass_time(1000.0)
    assert transport.is_aborted


async def test_large_bodies_are_written_without_joining_copies_of_order() -> None:
    def parts(request: Request, reply: Reply) -> None:
        size = 40_000 if request.path == b"/big" else 4
        reply.send(Response(200, (), [b"x" * size, b"y" * size]))

    connection, transport, _ = connect(parts)
    big = b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n"
    connection.data_received(GET + big + GET)
    bodies = transport.sent.replace(b"\r\n", b"")
    assert bodies.index(b"xxxxyyyyHTTP") < bodies.index(b"x" * 40_000 + b"y" * 40_000)
    assert bodies.endswith(b"xxxxyyyy")


async def test_a_lost_connection_gives_back_what_it_held() -> None:
    connection, _, _ = connect(echo)
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9000\r\n\r\n"
    connection.data_received(head + bytes(5000))
    assert connection.edge.body_bytes_held == 5000
    connection.connection_lost(None)
    assert connection.edge.body_bytes_held == 0
    assert connection.edge.counters.connections == 0


async def test_the_beginning_of_a_method_is_the_beginning_of_a_request() -> None:
    connection, transport, pass_time = connect(echo)
    connection.data_received(GET)
    connection.data_received(GET + b"GE")
    assert transport.sent.count(b"HTTP/1.1 200") == 2
    pass_time(11.0)
    assert b"HTTP/1.1 408 " in transport.sent


async def test_a_request_is_not_taken_for_whole_behind_the_beginning_of_another() -> None:
    connection, transport, _ = connect(echo)
    for data in (GET, GET, GET + b"GET ", GET):
        connection.data_received(data)
    assert transport.sent.count(b"HTTP/1.1 200") == 3
    assert transport.sent.count(b"HTTP/1.1 400 ") == 1


async def test_known_requests_and_parsed_ones_are_handled_in_their_order() -> None:
    connection, transport, _ = connect(echo)
    pieces = [GET, GET, GET.replace(b"/a", b"/b"), GET * 2, GET[:20], GET[20:], GET]
    for piece in pieces:
        connection.data_received(piece)
    assert connection.edge.lanes.blocks
    bodies = [part[:2] for part in transport.sent.split(b"\r\n\r\n")[1:]]
    assert bodies == [b"/a", b"/a", b"/b", b"/a", b"/a", b"/a", b"/a"]
