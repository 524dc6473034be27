import pytest

from millstream.server.http import Request
from millstream.server.intake import BODY, HEAD, IDLE, Intake
from millstream.server.refusal import Refusal
from millstream.server.settings import Settings

LIMITS = Settings(body_bytes_max=10, header_bytes_max=256, header_count_max=4, uri_bytes_max=64)


class Taken:
    """Remembers what an intake hands over."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.kept: list[bool] = []
        self.old: list[bool] = []
        self.invitations = 0

    def accept(self, request: Request, is_kept: bool, is_old: bool) -> None:
        self.requests.append(request)
        self.kept.append(is_kept)
        self.old.append(is_old)

    def invite_body(self) -> None:
        self.invitations += 1


@pytest.fixture
def taken() -> Taken:
    return Taken()


@pytest.fixture
def intake(taken: Taken) -> Intake:
    return Intake(LIMITS, taken, "192.0.2.1")


def attempt(intake: Intake, data: bytes) -> Refusal | None:
    try:
        intake.feed(data)
    except Refusal as caught:
        return caught
    return None


def refusal(intake: Intake, data: bytes) -> str:
    caught = attempt(intake, data)
    assert caught is not None
    return caught.code


def test_one_piece_may_hold_many_requests(intake: Intake, taken: Taken) -> None:
    intake.feed(b"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\nPUT /c HTTP/1.1\r\nHost: x\r\n\r\n")
    assert [(r.method, r.path, r.query) for r in taken.requests] == [
        ("GET", b"/a", b"b"),
        ("PUT", b"/c", b""),
    ]
    assert taken.requests[0].peer == "192.0.2.1"
    assert intake.phase == IDLE


def test_headers_do_not_leak_into_the_next_request(intake: Intake, taken: Taken) -> None:
    intake.feed(b"GET /a HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n\r\nGET /a HTTP/1.1\r\nHost: x\r\n\r\n")
    assert [b"x-a" in request.headers for request in taken.requests] == [True, False]


def test_the_phase_tells_where_the_bytes_end(intake: Intake) -> None:
    phases = []
    for piece in (
        b"P",
        b"OST /a HTTP/1.1\r\n",
        b"Host: x\r\nContent-Length: 2\r\n\r\n",
        b"a",
        b"b",
    ):
        intake.feed(piece)
        phases.append((intake.phase, intake.body_bytes))
    assert phases == [(HEAD, 0), (HEAD, 0), (BODY, 0), (BODY, 1), (IDLE, 0)]


def test_repeated_headers_are_joined(intake: Intake, taken: Taken) -> None:
    intake.feed(b"GET /a HTTP/1.1\r\nHost: x\r\nIf-Match: 1 \r\nif-match: 2\r\n\r\n")
    assert taken.requests[0].headers[b"if-match"] == b"1, 2"


@pytest.mark.parametrize("name", ["Stream-Seq", "Producer-Epoch", "Authorization", "Content-Type"])
def test_headers_that_must_be_single_may_not_be_repeated(name: str, intake: Intake) -> None:
    line = f"{name}: 1\r\n".encode()
    assert refusal(intake, b"POST /a HTTP/1.1\r\nHost: x\r\n" + line * 2 + b"\r\n") == (
        "bad_request"
    )


def test_a_body_is_refused_by_its_announced_length(intake: Intake) -> None:
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 11\r\n\r\n"
    assert refusal(intake, head) == "body_too_large"
    assert intake.body_bytes == 0


def test_a_chunked_body_is_refused_at_the_first_byte_too_many(intake: Intake) -> None:
    intake.feed(b"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789")
    assert refusal(intake, b"\r\n1\r\na") == "body_too_large"


def test_header_bytes_are_limited_in_one_piece_and_in_many(taken: Taken) -> None:
    head = b"GET /a HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 300 + b"\r\n\r\n"
    assert refusal(Intake(LIMITS, taken), head) == "headers_too_large"
    dribble = Intake(LIMITS, taken)
    dribble.feed(b"GET /a HTTP/1.1\r\nHost: x\r\nX: ")
    fed = 0
    while not isinstance(caught := attempt(dribble, b"a" * 100), Refusal):
        fed += 100
        assert fed < 100_000
    assert caught.code == "headers_too_large"
    assert taken.requests == []


def test_header_fields_are_counted(intake: Intake) -> None:
    fields = b"".join(b"x%d: y\r\n" % i for i in range(4))
    assert refusal(intake, b"GET /a HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n") == (
        "headers_too_large"
    )


def test_long_targets_are_refused_before_their_end(intake: Intake) -> None:
    intake.feed(b"GET /" + b"a" * 50)
    assert refusal(intake, b"a" * 20) == "uri_too_long"


@pytest.mark.parametrize("name", [b"Connection", b"Proxy-Connection"])
def test_http_1_0_that_asks_to_be_kept_stays_http_1_0(
    intake: Intake, taken: Taken, name: bytes
) -> None:
    intake.feed(b"GET /a HTTP/1.0\r\n" + name + b": keep-alive\r\n\r\n")
    assert taken.old == [True]


def test_http_1_0_needs_no_host_and_is_not_kept(intake: Intake, taken: Taken) -> None:
    intake.feed(b"GET /a HTTP/1.0\r\n\r\n")
    assert (taken.kept, taken.old) == ([False], [True])
    assert intake.is_finished


def test_connection_close_is_not_kept_and_what_follows_is_ignored(
    intake: Intake, taken: Taken
) -> None:
    intake.feed(b"GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nGET /b HTTP/1.1\r\n")
    assert (taken.kept, taken.old) == ([False], [False])
    assert len(taken.requests) == 1


@pytest.mark.parametrize("host", [b"x", b"x:1", b"[::1]:80", b"127.0.0.1:4437", b"a-b.c_d.example"])
def test_hosts_are_names_or_addresses(host: bytes, intake: Intake, taken: Taken) -> None:
    intake.feed(b"GET /a HTTP/1.1\r\nHost: " + host + b"\r\n\r\n")
    assert taken.requests[0].host == host.decode()


@pytest.mark.parametrize("host", [b"", b"a/b", b"a b", b"a@b", b"[x]", b"a:b", b"\xff"])
def test_other_hosts_are_refused(host: bytes, intake: Intake) -> None:
    assert refusal(intake, b"GET /a HTTP/1.1\r\nHost: " + host + b"\r\n\r\n") == "bad_request"


def test_a_body_is_invited_once_and_only_where_one_is_announced(
    intake: Intake, taken: Taken
) -> None:
    expect = b"POST /a HTTP/1.1\r\nHost: x\r\nExpect: 100-Continue\r\n"
    intake.feed(expect + b"\r\n" + expect + b"Content-Length: 0\r\n\r\n")
    assert taken.invitations == 0
    intake.feed(expect + b"Content-Length: 1\r\n\r\n")
    assert taken.invitations == 1


def test_an_upgrade_is_read_as_the_plain_request_it_also_is(intake: Intake, taken: Taken) -> None:
    upgrade = (
        b"POST /a HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
        b"Content-Length: 3\r\n\r\n"
    )
    for _ in range(3):
        intake.feed(upgrade + b"abc" + upgrade + b"d")
        intake.feed(b"ef")
    assert [request.body for request in taken.requests] == [b"abc", b"def"] * 3
    assert taken.kept == [True] * 6


def test_options_may_ask_about_the_whole_server(intake: Intake, taken: Taken) -> None:
    intake.feed(b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n")
    assert taken.requests[0].path == b"*"
    assert refusal(intake, b"GET * HTTP/1.1\r\nHost: x\r\n\r\n") == "bad_request"


def test_an_absolute_target_without_a_path_means_the_root(intake: Intake, taken: Taken) -> None:
    intake.feed(b"GET http://y.example?q HTTP/1.1\r\nHost: x\r\n\r\n")
    request = taken.requests[0]
    assert (request.path, request.query, request.host) == (b"/", b"q", "y.example")


def test_an_identity_encoding_is_no_encoding(intake: Intake, taken: Taken) -> None:
    intake.feed(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Encoding: identity\r\n\r\n")
    assert len(taken.requests) == 1
    gzip = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n\r\n"
    assert refusal(intake, gzip) == "unsupported_encoding"
