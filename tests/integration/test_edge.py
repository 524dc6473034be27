"""The edge on a real socket: framing, order, limits, deadlines, back-pressure, stop."""

import logging
import random
import socket
from collections.abc import Iterator

import pytest

from millstream.server.http import Response
from millstream.server.settings import Settings
from tests.support.edge import PATIENCE_S, EdgeThread, RawClient, Toy

H = b"Host: x\r\n"
GET = b"GET /echo HTTP/1.1\r\n" + H + b"\r\n"
POST = b"POST /echo HTTP/1.1\r\n" + H
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"

REFUSED = {
    "length and chunked": (400, POST + b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0"
                           b"\r\n\r\nGET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"),
    "xchunked": (400, POST + b"Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n"),
    "space before colon": (400, POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n"),
    "gzip, chunked": (400, POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
    "chunked on 1.0": (400, b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
    "two lengths": (400, POST + b"Content-Length: 3\r\nContent-Length: 5\r\n\r\nabcde"),
    "same length twice": (400, POST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc"),
    "length +5": (400, POST + b"Content-Length: +5\r\n\r\nabcde"),
    "length 1_0": (400, POST + b"Content-Length: 1_0\r\n\r\nabcdeabcde"),
    "length list": (400, POST + b"Content-Length: 3, 3\r\n\r\nabc"),
    "length overflow": (400, POST + b"Content-Length: 99999999999999999999999\r\n\r\nabc"),
    "bare line feeds": (400, b"GET /echo HTTP/1.1\nHost: x\n\n"),
    "one bare line feed": (400, b"GET /echo HTTP/1.1\r\nHost: x\nX: y\r\n\r\n"),
    "folded header": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X: a\r\n b\r\n\r\n"),
    "chunk extension with line feed": (400, CHUNKED + b"5;a\nabcde\r\n0\r\n\r\n"),
    "chunk size overflow": (400, CHUNKED + b"fffffffffffffffff\r\nabc"),
    "chunk size no number": (400, CHUNKED + b"zz\r\nabc"),
    "no host": (400, b"GET /echo HTTP/1.1\r\n\r\n"),
    "two hosts": (400, b"GET /echo HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    "host with a path": (400, b"GET /echo HTTP/1.1\r\nHost: a/b\r\n\r\n"),
    "host with a space": (400, b"GET /echo HTTP/1.1\r\nHost: a b\r\n\r\n"),
    "empty host": (400, b"GET /echo HTTP/1.1\r\nHost:\r\n\r\n"),
    "NUL in header": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X: a\x00b\r\n\r\n"),
    "CR in header": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X: a\rb\r\n\r\n"),
    "space in header name": (400, b"GET /echo HTTP/1.1\r\n" + H + b"X Y: a\r\n\r\n"),
    "NUL in target": (400, b"GET /e\x00o HTTP/1.1\r\n" + H + b"\r\n"),
    "fragment in target": (400, b"GET /echo#part HTTP/1.1\r\n" + H + b"\r\n"),
    "authority as target": (400, b"GET example.com:80 HTTP/1.1\r\n" + H + b"\r\n"),
    "connect": (400, b"CONNECT example.com:80 HTTP/1.1\r\n" + H + b"\r\n"),
    "repeated producer id": (400, POST + b"Producer-Id: a\r\nProducer-Id: b\r\n\r\n"),
    "repeated content type": (400, POST + b"Content-Type: a/b\r\nContent-Type: a/c\r\n\r\n"),
    "repeated authorization": (400, POST + b"Authorization: a\r\nAuthorization: b\r\n\r\n"),
    "32 KiB header": (431, b"GET /echo HTTP/1.1\r\n" + H + b"X: " + b"a" * 32768 + b"\r\n\r\n"),
    "128 KiB header": (431, b"GET /echo HTTP/1.1\r\n" + H + b"X: " + b"a" * 131072 + b"\r\n\r\n"),
    "1 MiB header": (431, b"GET /echo HTTP/1.1\r\n" + H + b"X: " + b"a" * 1048576 + b"\r\n\r\n"),
    "5000 headers": (431, b"GET /echo HTTP/1.1\r\n" + H
                     + b"".join(b"x%d: y\r\n" % i for i in range(5000)) + b"\r\n"),
    "endless trailer": (431, CHUNKED + b"1\r\na\r\n0\r\nX: " + b"t" * 300_000),
    "endless chunk extension": (431, CHUNKED + b"1\r\na\r\n1;" + b"e" * 300_000),
    "64 KiB target": (414, b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\n" + H + b"\r\n"),
    "length over the limit": (413, POST + b"Content-Length: 2000000\r\n\r\nabc"),
    "chunks over the limit": (413, CHUNKED + b"100000\r\n" + bytes(0x100000) + b"\r\n1\r\na\r\n"),
    "compressed body": (415, POST + b"Content-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"),
    "strange expectation": (400, POST + b"Expect: tea\r\nContent-Length: 3\r\n\r\nabc"),
    "HTTP/2 preface": (400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    "HTTP/1.2": (400, b"GET /echo HTTP/1.2\r\n" + H + b"\r\n"),
    "TLS hello": (400, bytes.fromhex("16030100a5010000a10303") + bytes(64)),
    "unknown method": (400, b"BREW /echo HTTP/1.1\r\n" + H + b"\r\n"),
    "lower-case method": (400, b"get /echo HTTP/1.1\r\n" + H + b"\r\n"),
}  # fmt: skip


@pytest.fixture
def toy() -> Toy:
    return Toy()


@pytest.fixture
def edge(toy: Toy) -> Iterator[EdgeThread]:
    with EdgeThread(Settings(port=0, body_bytes_max=1024 * 1024, stop_ms=2000), toy) as running:
        yield running


@pytest.mark.parametrize("name", REFUSED)
def test_a_malformed_or_oversized_request_is_refused_and_the_connection_closed(
    name: str, edge: EdgeThread, toy: Toy
) -> None:
    status, sent = REFUSED[name]
    with edge.connect() as client:
        try:
            client.send(sent)
        except (BrokenPipeError, ConnectionResetError):
            pass  # It may answer and close before we have sent it all.
        answer = client.rest()
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert answer.count(b"x-content-type-options") == 1
    assert b"content-type: application/problem+json" in answer
    assert b"connection: close" in answer
    assert toy.requests == []


@pytest.mark.parametrize(
    "target", [b"/v1/stream/../../etc/passwd", b"/v1/%2e%2e%2fetc%00", b"/v1/%zz%ff", b"/a?b?c=%"]
)
def test_a_target_reaches_the_handler_as_it_was_sent(
    target: bytes, edge: EdgeThread, toy: Toy
) -> None:
    with edge.connect() as client:
        client.send(b"GET " + target + b" HTTP/1.1\r\n" + H + b"\r\n")
        assert client.response()[0] == 200
    path, _, query = target.partition(b"?")
    assert (toy.requests[0].path, toy.requests[0].query) == (path, query)
    assert toy.requests[0].has_query == (b"?" in target)


def test_every_answer_has_the_security_headers_and_a_date(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(GET)
        _, headers, _ = client.response()
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"cross-origin-resource-policy"] == b"cross-origin"
    assert headers[b"date"].endswith(b"gmt")
    assert b"server" not in headers


@pytest.mark.parametrize("path", [b"inj", b"lf"])
def test_a_header_value_cannot_start_a_line_of_its_own(path: bytes, edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(b"GET /" + path + b" HTTP/1.1\r\nConnection: close\r\n" + H + b"\r\n")
        answer = client.rest()
    assert answer.startswith(b"HTTP/1.1 500 ")
    assert b"\nset-cookie" not in answer


def test_header_bytes_beyond_ascii_are_sent_as_they_are(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(b"GET /latin HTTP/1.1\r\n" + H + b"\r\n")
        assert client.response()[1][b"x-a"] == b"caf\xe9"


def test_pipelined_requests_are_answered_in_order_however_long_each_takes(
    edge: EdgeThread,
) -> None:
    count = 300
    sent = b"".join(
        b"GET /%b?%d HTTP/1.1\r\n%b\r\n" % (b"later" if i % 7 == 0 else b"echo", i, H)
        if i % 2 == 0
        else POST + b"Content-Length: %d\r\n\r\n%d" % (len(str(i)), i)
        for i in range(count)
    )
    with edge.connect() as client:
        client.send(sent)
        bodies = [client.response()[2] for _ in range(count)]
    assert bodies == [
        (b"later %d" % i if i % 7 == 0 else b"") if i % 2 == 0 else b"%d" % i for i in range(count)
    ]


def test_a_request_split_at_every_byte_is_the_same_request(edge: EdgeThread, toy: Toy) -> None:
    sent = b"POST /echo?a=b HTTP/1.1\r\nHost: x\r\nX-Y:  z \r\nContent-Length: 4\r\n\r\nabcd"
    with edge.connect() as client:
        client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for i in range(len(sent)):
            client.send(sent[i : i + 1])
        assert client.response()[2] == b"abcd"
    assert toy.requests[0].headers == {b"host": b"x", b"x-y": b"z", b"content-length": b"4"}
    assert toy.requests[0].query == b"a=b"


def test_chunked_bodies_are_joined_and_trailers_dropped(edge: EdgeThread, toy: Toy) -> None:
    with edge.connect() as client:
        client.send(CHUNKED + b"3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nX-Trailer: t\r\n\r\n" + GET)
        assert client.response()[2] == b"abcde"
        assert client.response()[0] == 200
    assert b"x-trailer" not in toy.requests[0].headers


def test_a_client_that_expects_it_is_told_to_continue(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert client.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.send(b"abc")
        assert client.response()[2] == b"abc"


def test_a_client_whose_body_would_be_refused_is_not_told_to_continue(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(POST + b"Expect: 100-continue\r\nContent-Length: 99000000\r\n\r\n")
        assert client.rest().startswith(b"HTTP/1.1 413 ")


def test_continue_waits_for_earlier_answers(edge: EdgeThread) -> None:
    later = b"GET /later?1 HTTP/1.1\r\n" + H + b"\r\n"
    with edge.connect() as client:
        client.send(later + POST + b"Expect: 100-continue\r\nContent-Length: 3\r\n\r\n")
        assert client.response()[2] == b"later 1"
        assert client.until(b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
        client.send(b"abc")
        assert client.response()[2] == b"abc"


def test_an_offer_to_upgrade_is_declined_and_the_body_is_still_a_body(edge: EdgeThread) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    with edge.connect() as client:
        client.send(POST + upgrade + b"Content-Length: 22\r\n\r\nGET /smuggled HTTP/1.1")
        assert client.response()[2] == b"GET /smuggled HTTP/1.1"
        client.send(
            POST + upgrade + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n" + GET
        )
        assert client.response()[2] == b"abc"
        assert client.response()[0] == 200


def test_http_1_0_is_answered_and_closed_unless_it_asks_to_be_kept(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(b"GET /echo HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        status, headers, _ = client.response()
        assert (status, headers[b"connection"]) == (200, b"keep-alive")
        client.send(b"GET /echo HTTP/1.0\r\n\r\n")
        assert b"connection: close" in client.rest()


def test_what_follows_connection_close_is_ignored(edge: EdgeThread, toy: Toy) -> None:
    with edge.connect() as client:
        client.send(b"GET /echo HTTP/1.1\r\nConnection: close\r\n" + H + b"\r\n" + GET)
        assert client.rest().count(b"HTTP/1.1 200") == 1
    assert len(toy.requests) == 1


def test_absolute_targets_are_taken_and_their_host_wins(edge: EdgeThread, toy: Toy) -> None:
    with edge.connect() as client:
        client.send(b"GET http://real.example:8080/echo?q HTTP/1.1\r\n" + H + b"\r\n")
        assert client.response()[0] == 200
    assert toy.requests[0].path == b"/echo"
    assert toy.requests[0].base_url(None) == "http://real.example:8080"


def test_a_half_closed_client_still_gets_its_answers(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(b"GET /later?1 HTTP/1.1\r\n" + H + b"\r\n" + GET)
        client.socket.shutdown(socket.SHUT_WR)
        assert client.rest().count(b"HTTP/1.1 200") == 2


def test_bodiless_statuses_and_head_send_no_body(edge: EdgeThread) -> None:
    with edge.connect() as client:
        for method, path in ((b"GET", b"nothing"), (b"HEAD", b"length"), (b"HEAD", b"parts")):
            client.send(method + b" /" + path + b" HTTP/1.1\r\n" + H + b"\r\n")
        assert b"content-length" not in client.until(b"\r\n\r\n")
        assert b"content-length: 1234" in client.until(b"\r\n\r\n")
        assert b"content-length" not in client.until(b"\r\n\r\n")
        client.send(b"GET /parts HTTP/1.1\r\n" + H + b"\r\n")
        assert client.response()[2] == b"one,two,three"


def test_a_failing_handler_gives_500_and_the_connection_lives_on(
    edge: EdgeThread, caplog: pytest.LogCaptureFixture
) -> None:
    with edge.connect() as client:
        for target in (b"/boom", b"/task?raise", b"/task?silent"):
            client.send(b"GET " + target + b" HTTP/1.1\r\n" + H + b"\r\n")
            status, headers, body = client.response()
            assert (status, headers[b"content-type"]) == (500, b"application/problem+json")
            assert b"boom" not in body
        client.send(b"GET /task HTTP/1.1\r\n" + H + b"\r\n")
        assert client.response()[2] == b"task"
    assert sum("ZeroDivisionError" in (r.exc_text or "") for r in caplog.records) == 2


def test_a_streamed_body_is_chunked_and_ends_properly(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(b"GET /stream HTTP/1.1\r\n" + H + b"\r\n" + GET)
        assert b"transfer-encoding: chunked" in client.until(b"\r\n\r\n")
        expected = b"5\r\nalpha\r\n7d00\r\n" + b"beta" * 8000 + b"\r\n0\r\n\r\n"
        assert client.exactly(len(expected)) == expected
        assert client.response()[0] == 200


def test_a_streamed_body_on_http_1_0_ends_with_the_connection(edge: EdgeThread) -> None:
    with edge.connect() as client:
        client.send(b"GET /stream HTTP/1.0\r\n\r\n")
        head = client.until(b"\r\n\r\n")
        assert b"chunked" not in head
        assert client.rest() == b"alpha" + b"beta" * 8000


@pytest.mark.parametrize("target", [b"/hold", b"/stream?open", b"/task?wait", b"/flood"])
def test_a_handler_learns_that_its_client_has_gone(
    target: bytes, edge: EdgeThread, toy: Toy
) -> None:
    with edge.connect() as client:
        client.send(b"GET " + target + b" HTTP/1.1\r\n" + H + b"\r\n")
        assert toy.has_arrived.acquire(timeout=PATIENCE_S)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert toy.has_left.acquire(timeout=PATIENCE_S)


def test_answering_twice_raises_and_answering_the_departed_does_nothing(
    edge: EdgeThread, toy: Toy
) -> None:
    with edge.connect() as client:
        client.send(b"GET /hold HTTP/1.1\r\n" + H + b"\r\n")
        assert toy.has_arrived.acquire(timeout=PATIENCE_S)
        reply = toy.held[0]
        edge.call(lambda: reply.send(Response(200)))
        with pytest.raises(RuntimeError, match="twice"):
            edge.call(lambda: reply.send(Response(200)))
        assert client.response()[0] == 200
        client.send(b"GET /hold HTTP/1.1\r\n" + H + b"\r\n")
        assert toy.has_arrived.acquire(timeout=PATIENCE_S)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    assert toy.has_left.acquire(timeout=PATIENCE_S)
    edge.call(lambda: toy.held[1].send(Response(200)))
    assert toy.held[1].is_disconnected


def small(**changes: int) -> Settings:
    base = {"port": 0, "header_ms": 200, "body_ms": 200, "idle_ms": 200, "write_stall_ms": 200}
    return Settings(**{**base, "stop_ms": 2000, **changes})


@pytest.mark.parametrize(
    "sent, answer",
    [
        (b"", b""),
        (b"G", b"HTTP/1.1 408 "),
        (b"GET /echo HTTP/1.1\r\nHost: x\r\nX-a: ", b"HTTP/1.1 408 "),
        (POST + b"Content-Length: 100\r\n\r\nab", b"HTTP/1.1 408 "),
        (CHUNKED + b"5\r\nab", b"HTTP/1.1 408 "),
        (GET, b"HTTP/1.1 200 "),
        (GET + b"GET /ec", b"HTTP/1.1 200 "),
    ],
)
def test_a_client_that_does_not_go_on_is_dropped(sent: bytes, answer: bytes, toy: Toy) -> None:
    with EdgeThread(small(), toy) as edge, edge.connect() as client:
        client.send(sent)
        assert client.rest().startswith(answer)


def test_a_body_that_comes_fast_enough_may_take_longer_than_the_deadline(toy: Toy) -> None:
    settings = small(body_bytes_per_s_min=1, idle_ms=60_000)
    with EdgeThread(settings, toy) as edge, edge.connect() as client, edge.connect() as other:
        client.send(POST + b"Content-Length: 200000\r\n\r\n" + bytes(100_000))
        other.send(b"G")
        assert other.rest().startswith(b"HTTP/1.1 408 ")  # The deadline is over by now.
        client.send(bytes(100_000))
        assert client.response()[0] == 200


def test_a_client_that_does_not_read_its_answer_is_cut(toy: Toy) -> None:
    with EdgeThread(small(idle_ms=60_000), toy) as edge:
        with RawClient(edge.port, receive_bytes=4096) as client:
            client.send(b"GET /flood HTTP/1.1\r\n" + H + b"\r\n")
            assert toy.has_left.acquire(timeout=PATIENCE_S)
        with RawClient(edge.port, receive_bytes=4096) as client:
            client.send(b"GET /big HTTP/1.1\r\n" + H + b"\r\n")
            client.until(b"\r\n\r\n")
            while edge.call(lambda: edge.edge.counters.connections):
                pass
        assert edge.edge.counters.connections_stalled == 2


def test_a_slow_reader_pauses_the_writer_so_that_memory_stays_bounded(toy: Toy) -> None:
    settings = Settings(port=0, stop_ms=100, write_buffer_bytes=64 * 1024)
    with EdgeThread(settings, toy) as edge, RawClient(edge.port, receive_bytes=4096) as client:
        client.send(b"GET /flood HTTP/1.1\r\n" + H + b"\r\n")
        for _ in range(5):
            assert toy.has_paused.acquire(timeout=PATIENCE_S)
            while not toy.has_drained.acquire(blocking=False):
                client.exactly(64 * 1024)
        assert toy.buffered_max <= 64 * 1024 + 2 * 33 * 1024


def test_pipelined_requests_wait_unhandled_while_answers_are_unread(toy: Toy) -> None:
    settings = Settings(port=0, stop_ms=100)
    with EdgeThread(settings, toy) as edge, RawClient(edge.port, receive_bytes=4096) as client:
        client.send((b"GET /big HTTP/1.1\r\n" + H + b"\r\n") * 200)
        assert toy.has_arrived.acquire(timeout=PATIENCE_S)
        client.until(b"\r\n\r\n")
        assert edge.call(lambda: len(toy.requests)) <= 3


def test_unfinished_bodies_share_a_budget(toy: Toy) -> None:
    settings = Settings(port=0, bodies_bytes_max=100_000, stop_ms=100)
    head = POST + b"Content-Length: 90001\r\n\r\n"
    with EdgeThread(settings, toy) as edge, edge.connect() as first, edge.connect() as second:
        first.send(head + bytes(90_000))
        while edge.call(lambda: edge.edge.body_bytes_held) < 90_000:
            pass
        second.send(head + bytes(90_000))
        answer = second.rest()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 1" in answer
        first.send(b"a")
        assert first.response()[0] == 200
        assert edge.call(lambda: edge.edge.body_bytes_held) == 0


def test_a_connection_too_many_is_told_to_come_back(toy: Toy) -> None:
    with EdgeThread(Settings(port=0, connections_max=2, stop_ms=100), toy) as edge:
        with edge.connect() as one, edge.connect() as two:
            for client in (one, two):
                client.send(GET)
                assert client.response()[0] == 200
            with edge.connect() as third:
                third.send(GET)
                answer = third.rest()
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1" in answer
        while edge.call(lambda: edge.edge.counters.connections):
            pass
        with edge.connect() as client:
            client.send(GET)
            assert client.response()[0] == 200


def test_preflights_are_answered_only_where_cors_is_on(toy: Toy) -> None:
    preflight = b"OPTIONS /echo HTTP/1.1\r\nOrigin: https://app.example\r\n" + H + b"\r\n"
    with EdgeThread(Settings(port=0, cors_origins=("*",), stop_ms=100), toy) as edge:
        with edge.connect() as client:
            client.send(preflight + GET)
            status, headers, _ = client.response()
            assert (status, headers[b"access-control-allow-origin"]) == (204, b"*")
            assert b"put" in headers[b"access-control-allow-methods"]
            assert client.response()[1][b"access-control-allow-origin"] == b"*"
    with EdgeThread(Settings(port=0, stop_ms=100), toy) as edge, edge.connect() as client:
        client.send(preflight)
        status, headers, _ = client.response()
        assert (status, headers[b"x-method"]) == (200, b"options")
        assert b"access-control-allow-origin" not in headers


def test_a_graceful_stop_answers_what_is_in_flight_and_ends_live_readers(toy: Toy) -> None:
    with EdgeThread(Settings(port=0, stop_ms=20_000), toy) as edge:
        idle, held, live = edge.connect(), edge.connect(), edge.connect()
        with idle, held, live:
            idle.send(GET)
            assert idle.response()[0] == 200
            held.send(b"GET /hold HTTP/1.1\r\n" + H + b"\r\n")
            live.send(b"GET /stream?open HTTP/1.1\r\n" + H + b"\r\n")
            for _ in range(3):
                assert toy.has_arrived.acquire(timeout=PATIENCE_S)
            edge.call(lambda: edge.listener.on_stopping(lambda: toy.sinks[0].close()))
            edge.begin_stop()
            assert idle.rest() == b""
            assert live.rest().endswith(b"0\r\n\r\n")
            edge.call(lambda: toy.held[0].send(Response(200, (), b"made it")))
            answer = held.rest()
            assert answer.endswith(b"made it")
            assert b"connection: close" in answer
    with pytest.raises(OSError, match="refused"):
        RawClient(edge.port)


def test_a_stop_cuts_what_is_not_done_in_time(toy: Toy) -> None:
    with EdgeThread(Settings(port=0, stop_ms=50), toy) as edge, edge.connect() as client:
        client.send(b"GET /hold HTTP/1.1\r\n" + H + b"\r\n")
        assert toy.has_arrived.acquire(timeout=PATIENCE_S)
        edge.begin_stop()
        assert client.rest() in (b"", b"<reset>")
        assert toy.has_left.acquire(timeout=PATIENCE_S)


def garbage(rng: random.Random) -> bytes:
    """Make input that is sometimes noise and sometimes nearly a request."""
    valid = rng.choice([sent for _, sent in REFUSED.values() if len(sent) < 2000] + [GET, CHUNKED])
    kind = rng.randrange(4)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 400))
    data = bytearray(valid)
    for _ in range(rng.randrange(1, 6)):
        position = rng.randrange(len(data))
        if kind == 1:
            data[position] = rng.randrange(256)
        elif kind == 2:
            del data[position]
        else:
            data[position:position] = rng.choice([b"\r\n", b"\0", b" ", b":", b"\n", b"0", b"\xff"])
    return bytes(data)


def test_a_thousand_random_inputs_give_no_5xx_no_traceback_and_no_hang(
    toy: Toy, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    seed = 20261116
    rng = random.Random(seed)
    with EdgeThread(small(stop_ms=100), toy) as edge:
        for start in range(0, 1000, 50):
            inputs = [garbage(rng) for _ in range(50)]
            clients = [edge.connect() for _ in inputs]
            for client, data in zip(clients, inputs, strict=True):
                client.send(data)
                client.socket.shutdown(socket.SHUT_WR)
            for client, data in zip(clients, inputs, strict=True):
                answer = client.rest()
                assert b"HTTP/1.1 5" not in answer, (seed, start, data)
                client.socket.close()
        with edge.connect() as client:
            client.send(GET)
            assert client.response()[0] == 200
    assert [record.getMessage() for record in caplog.records] == []
