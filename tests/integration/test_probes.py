"""Malformed requests on a bare socket: refused or served, never a 5xx, a traceback or a hang."""

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest

from millstream.testing.process import ServerProcess
from tests.support.client import Client, Heard, connect, listen, shout
from tests.support.server import Servers

HEAD = b"Host: x\r\n"
BAD = {400, 405, 408, 413, 414, 415, 431}
SMUGGLED = b"GET /v1/stream/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = ("--header-ms", "400", "--body-ms", "400", "--idle-ms", "600", "--body-bytes-max", "65536")


def post(framing: bytes, rest: bytes) -> bytes:
    kind = b"Content-Type: text/plain\r\n"
    return b"POST /v1/stream/a HTTP/1.1\r\n" + HEAD + kind + framing + b"\r\n\r\n" + rest


def get(target: bytes, extra: bytes = b"") -> bytes:
    return b"GET " + target + b" HTTP/1.1\r\n" + HEAD + extra + b"\r\n"


def chunks(data: bytes) -> bytes:
    return post(b"Transfer-Encoding: chunked", data)


REFUSED = {
    "length and chunks": post(
        b"Content-Length: 6\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + SMUGGLED
    ),
    "chunks and length": post(
        b"Transfer-Encoding: chunked\r\nContent-Length: 6", b"0\r\n\r\n" + SMUGGLED
    ),
    "an unknown coding": post(b"Transfer-Encoding: xchunked", b"0\r\n\r\n" + SMUGGLED),
    "two codings": post(b"Transfer-Encoding: gzip, chunked", b"0\r\n\r\n" + SMUGGLED),
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked", b"0\r\n\r\n" + SMUGGLED),
    "chunked in two headers": post(
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", b"0\r\n\r\n" + SMUGGLED
    ),
    "chunked with a tab": post(b"Transfer-Encoding:\tchunked\t;x", b"0\r\n\r\n" + SMUGGLED),
    "space before a colon": post(b"Transfer-Encoding : chunked", b"0\r\n\r\n" + SMUGGLED),
    "two lengths": post(b"Content-Length: 3\r\nContent-Length: 5", b"abcde"),
    "one length twice": post(b"Content-Length: 5\r\nContent-Length: 5", b"abcde"),
    "a list of lengths": post(b"Content-Length: 5, 5", b"abcde"),
    "a length with a plus": post(b"Content-Length: +5", b"abcde"),
    "a length with a minus": post(b"Content-Length: -5", b"abcde"),
    "a length with an underscore": post(b"Content-Length: 1_0", b"abcdeabcde"),
    "a length in hex": post(b"Content-Length: 0x5", b"abcde"),
    "an empty length": post(b"Content-Length:", b"abcde"),
    "a length of 30 digits": post(b"Content-Length: " + b"9" * 30, b"abcde"),
    "a length over the limit": post(b"Content-Length: 65537", b"abc"),
    "bare line feeds": b"GET /healthz HTTP/1.1\nHost: x\n\n",
    "a folded header": get(b"/healthz", b"X: a\r\n b\r\n"),
    "a header without colon": get(b"/healthz", b"Xyz\r\n"),
    "a header without name": get(b"/healthz", b": x\r\n"),
    "a chunk extension with a bare line feed": chunks(b"5;a\nabcde\r\n0\r\n\r\n"),
    "a chunk size that overflows": chunks(b"fffffffffffffffff\r\nabc"),
    "a chunk size with a sign": chunks(b"-5\r\nabcde\r\n0\r\n\r\n"),
    "a chunk size with a prefix": chunks(b"0x5\r\nabcde\r\n0\r\n\r\n"),
    "a chunk longer than its size": chunks(b"3\r\nabcde\r\n0\r\n\r\n"),
    "chunks over the limit": chunks(b"10001\r\n" + b"a" * 65537 + b"\r\n0\r\n\r\n"),
    "no host": b"GET /healthz HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "a host with a slash": b"GET /healthz HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "a host with a user": b"GET /healthz HTTP/1.1\r\nHost: u@b\r\n\r\n",
    "an empty host": b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    "NUL in a header": get(b"/healthz", b"X: a\x00b\r\n"),
    "CR in a header": get(b"/healthz", b"X: a\rb\r\n"),
    "NUL in a header's name": get(b"/healthz", b"X\x00Y: a\r\n"),
    "NUL in the target": get(b"/v1/stream/a\x00b"),
    "a space in the target": get(b"/v1/stream/a b"),
    "traversal": get(b"/v1/stream/../../etc/passwd"),
    "encoded traversal": get(b"/v1/stream/%2e%2e/%2E%2E/etc"),
    "encoded slashes": get(b"/v1/stream/%2e%2e%2fetc%2Fpasswd"),
    "an encoded NUL": get(b"/v1/stream/a%00"),
    "an encoded line break": get(b"/v1/stream/a%0d%0aX:%20y"),
    "a bad percent sign": get(b"/v1/stream/%zz"),
    "a lone percent sign": get(b"/v1/stream/a%"),
    "half a percent sign": get(b"/v1/stream/a%4"),
    "what is not UTF-8": get(b"/v1/stream/%ff%fe"),
    "an overlong slash": get(b"/v1/stream/%c0%af"),
    "an encoded surrogate": get(b"/v1/stream/%ed%a0%80"),
    "an encoded backslash": get(b"/v1/stream/..%5c..%5cetc"),
    "a path that is not normalised": get(b"/v1/stream/e%cc%81"),
    "an empty segment": get(b"/v1/stream/a//b"),
    "no name": get(b"/v1/stream/"),
    "a fragment": get(b"/v1/stream/a#b"),
    "a name of 2,000 bytes": get(b"/v1/stream/" + b"a" * 2000),
    "a header of 64 KiB": get(b"/healthz", b"X: " + b"a" * 65536 + b"\r\n"),
    "a header of 1 MiB": get(b"/healthz", b"X: " + b"a" * 1048576 + b"\r\n"),
    "5,000 headers": get(b"/healthz", b"".join(b"x%d: y\r\n" % n for n in range(5000))),
    "a target of 64 KiB": get(b"/" + b"a" * 65536),
    "a query of 64 KiB": get(b"/v1/streams?prefix=" + b"a" * 65536),
    "CONNECT": b"CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
    "TRACE": b"TRACE /healthz HTTP/1.1\r\n" + HEAD + b"\r\n",
    "an unknown method": b"FROB /healthz HTTP/1.1\r\n" + HEAD + b"\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /healthz\r\n\r\n",
    "HTTP/3.7": b"GET /healthz HTTP/3.7\r\n" + HEAD + b"\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(200)),
    "zeros": bytes(1000),
    "noise": bytes(range(256)) * 20,
    "an answer in place of a request": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
    "a compressed body": post(b"Content-Encoding: gzip\r\nContent-Length: 5", b"abcde"),
    "an unknown expectation": post(b"Expect: everything\r\nContent-Length: 5", b"abcde"),
    "a producer twice": post(b"Producer-Id: a\r\nProducer-Id: b\r\nContent-Length: 1", b"x"),
    "closed twice": post(b"Stream-Closed: true\r\nStream-Closed: false\r\nContent-Length: 1", b"x"),
    "a limit of 5,000 digits": get(b"/v1/streams?limit=000000001" + b"0" * 5000),
    "a limit that hides its size": get(b"/v1/streams?limit=0000001000999"),
    "a page limit of 5,000 digits": get(b"/v1/stream/a?limit=" + b"1" * 5000),
    "a time of 5,000 digits": get(b"/v1/stream/a?at=" + b"1" * 5000),
    "an epoch of 5,000 digits": post(
        b"Producer-Id: a\r\nProducer-Seq: 0\r\nContent-Length: 1\r\nProducer-Epoch: " + b"9" * 5000,
        b"x",
    ),
}
SERVED = {
    "an absolute target": (get(b"http://x/healthz"), [200]),
    "a query that is not UTF-8": (get(b"/healthz?%ff"), [200]),
    "HTTP/1.0 without host": (b"GET /healthz HTTP/1.0\r\n\r\n", [200]),
    "two requests at once": (get(b"/healthz") * 2, [200, 200]),
    "an upgrade that is not taken": (
        get(b"/healthz", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
        [200],
    ),
    "a length with 5,000 zeros": (
        b"PUT /v1/stream/zeros HTTP/1.1\r\n" + HEAD + b"Content-Length: " + b"0" * 5000 + b"1"
        b"\r\n\r\nx",
        [201],
    ),
    "an epoch with 5,000 zeros": (
        b"PUT /v1/stream/epoch HTTP/1.1\r\n" + HEAD + b"Content-Type: text/plain\r\n\r\n"
        b"POST /v1/stream/epoch HTTP/1.1\r\n" + HEAD + b"Content-Type: text/plain\r\n"
        b"Producer-Id: a\r\nProducer-Seq: 0\r\nProducer-Epoch: " + b"0" * 5000 + b"1\r\n"
        b"Content-Length: 1\r\n\r\nx",
        [201, 200],
    ),
    "chunks with extensions and trailers": (
        b"PUT /v1/stream/chunked HTTP/1.1\r\n" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
        b"3;a=b\r\nabc\r\n0\r\nStream-Closed: true\r\n\r\n",
        [201],
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with Servers(tmp_path_factory.mktemp("probes")) as started:
        server = started.start(*LIMITS)
        Client(server.port).put("a", b"", {"Content-Type": "text/plain"})
        yield server


@pytest.fixture(autouse=True)
def still_well(server: ServerProcess) -> Iterator[None]:
    """After every probe the server answers, says nothing of a failure, and has kept no byte."""
    before = len(server.output())
    yield
    client = Client(server.port)
    assert client.ask("GET", "/healthz").status == 200
    assert client.get("a").body == b""
    assert client.head("smuggled").status == 404
    said = server.output()[before:]
    assert "Traceback" not in said
    assert '"level":"error"' not in said


def check_answers(heard: Heard) -> None:
    assert heard.is_ended, "the connection hangs"
    assert all(status < 500 for status in heard.statuses), heard.data
    assert b"Traceback" not in heard.data


@pytest.mark.parametrize("probe", REFUSED.values(), ids=REFUSED.keys())
def test_a_malformed_request_is_refused(server: ServerProcess, probe: bytes) -> None:
    heard = shout(server.port, probe)
    check_answers(heard)
    assert len(heard.statuses) == 1, "a second request was read out of the first"
    assert heard.statuses[0] in BAD


@pytest.mark.parametrize("probe, statuses", SERVED.values(), ids=SERVED.keys())
def test_a_strange_but_right_request_is_served(
    server: ServerProcess, probe: bytes, statuses: list[int]
) -> None:
    heard = shout(server.port, probe)
    check_answers(heard)
    assert heard.statuses == statuses


def test_a_trailer_is_no_header(server: ServerProcess) -> None:
    shout(server.port, SERVED["chunks with extensions and trailers"][0])
    assert "stream-closed" not in Client(server.port).head("chunked").headers


def test_a_refusal_says_which_rule_was_broken(server: ServerProcess) -> None:
    heard = shout(server.port, REFUSED["two hosts"])
    assert b"content-type: application/problem+json" in heard.data
    assert b"host may be given only once" in heard.data
    assert b"x-content-type-options: nosniff" in heard.data


def test_a_body_that_ends_early_is_not_stored(server: ServerProcess) -> None:
    check_answers(shout(server.port, post(b"Content-Length: 100", b"ab")))
    check_answers(shout(server.port, chunks(b"5\r\nabc")))


@pytest.mark.parametrize(
    "beginning, status",
    [
        (b"", 0),
        (b"GET /heal", 408),
        (b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ", 408),
        (post(b"Content-Length: 100", b"ab"), 408),
        (chunks(b"5\r\nab"), 408),
        (chunks(b"5;a=" + b"b" * 100), 408),
        (post(b"Expect: 100-continue\r\nContent-Length: 5", b""), 408),
        (get(b"/healthz"), 200),
    ],
    ids=["nothing", "a line", "a header", "a body", "a chunk", "an extension", "waiting", "idle"],
)
def test_a_client_that_says_no_more_is_dropped(
    server: ServerProcess, beginning: bytes, status: int
) -> None:
    began = time.monotonic()
    with connect(server.port) as connection:
        connection.sendall(beginning)
        heard = listen(connection)
    assert heard.is_ended
    assert time.monotonic() - began < 5
    assert [found for found in heard.statuses if found != 100] == ([status] if status else [])


@pytest.mark.parametrize(
    "beginning",
    [b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ", post(b"Content-Length: 60000", b"")],
    ids=["header", "body"],
)
def test_a_client_that_drips_is_dropped(server: ServerProcess, beginning: bytes) -> None:
    began = time.monotonic()
    with connect(server.port, 0.05) as connection:
        connection.sendall(beginning)
        heard = Heard(b"", is_ended=False)
        while not heard.is_ended and time.monotonic() - began < 5:
            with contextlib.suppress(OSError):
                connection.sendall(b"a")
            more = listen(connection)
            heard = Heard(heard.data + more.data, more.is_ended)
    assert heard.is_ended
    assert heard.statuses == [408]


def test_a_client_that_reads_no_answer_is_dropped(servers: Servers) -> None:
    server = servers.start("--write-stall-ms", "300", "--page-bytes", "4000000")
    client = Client(server.port)
    client.put("big", b"x" * 4_000_000, {"Content-Type": "text/plain"})
    with connect(server.port) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(get(b"/v1/stream/big") * 8)
        deadline = time.monotonic() + 10
        while client.metric("millstream_connections") > 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert client.metric("millstream_connections") == 1
    assert client.get("big").status == 200
    assert "Traceback" not in server.output()


def test_a_hundred_clients_that_leave_at_once_do_no_harm(server: ServerProcess) -> None:
    for number in range(100):
        with connect(server.port) as connection:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"  # leave with a reset
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.sendall(get(b"/v1/stream/a?live=long-poll&offset=now")[: number + 1])
