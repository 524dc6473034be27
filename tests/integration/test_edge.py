"""The edge on a real socket: framing, the order of answers, streaming, failures."""

import contextlib
import socket
from collections.abc import Iterator

import pytest

from millstream.server.http import Response
from millstream.server.settings import Settings
from tests.support.edge import PATIENCE_S, EdgeThread, Toy
from tests.support.probes import CHUNKED, GET, POST, REFUSED, H


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
        # It may answer and close before we have sent it all.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            client.send(sent)
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


def test_preflights_are_answered_only_where_cors_is_on(toy: Toy) -> None:
    preflight = b"OPTIONS /echo HTTP/1.1\r\nOrigin: https://app.example\r\n" + H + b"\r\n"
    settings = Settings(port=0, cors_origins=("*",), stop_ms=100)
    with EdgeThread(settings, toy) as edge, edge.connect() as client:
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
