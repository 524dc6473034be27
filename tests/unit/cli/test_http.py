import socket

import pytest

from millstream.cli import failures
from millstream.cli.failures import Failure
from millstream.cli.http import Answer, Client, refusal, stream_path
from tests.support.scripted import Reply, replies, scripted

PROBLEM = b'{"title":"T","detail":"no such thing","code":"stream_not_found","status":404}'


@pytest.mark.parametrize(
    "name,path",
    [
        ("a/b", "/v1/stream/a/b"),
        ("/a/", "/v1/stream/a"),
        ("a b?c#d%", "/v1/stream/a%20b%3Fc%23d%25"),
        ("ü", "/v1/stream/%C3%BC"),
    ],
)
def test_a_name_becomes_a_path(name: str, path: str) -> None:
    assert stream_path(name) == path


@pytest.mark.parametrize("suffix", ["", "/", "/v1/stream", "/v1/stream/"])
def test_the_url_may_or_may_not_end_in_the_stream_root(suffix: str) -> None:
    with scripted(replies(Reply())) as server, Client(server.url + suffix, 5) as client:
        client.must("GET", stream_path("x"), query={"a": "1 2", "b": None, "c": 3})
        assert server.asked[0].path == "/v1/stream/x"
        assert server.asked[0].query == {"a": "1 2", "c": "3"}
        assert client.url_of("x") == f"{server.url}/v1/stream/x"


def test_a_server_behind_a_prefix_is_reached() -> None:
    with scripted(replies(Reply())) as server, Client(f"{server.url}/pre", 5) as client:
        client.must("GET", stream_path("x"))
        assert server.asked[0].path == "/pre/v1/stream/x"


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:port"])
def test_a_url_that_is_no_server_is_wrong_usage(url: str) -> None:
    with pytest.raises(Failure) as caught:
        Client(url, 5)
    assert caught.value.exit_code == failures.USAGE


def test_a_problem_document_becomes_the_message_and_the_exit_status() -> None:
    failure = refusal(Answer(404, {"stream-next-offset": "7"}, PROBLEM))
    assert failure.message == "no such thing (HTTP 404, stream_not_found)"
    assert failure.exit_code == failures.NOT_FOUND
    assert failure.facts == {"status": 404, "code": "stream_not_found", "next_offset": "7"}


@pytest.mark.parametrize("body", [b"", b"[1]", b"\xff", b"plain words"])
def test_an_error_without_a_problem_document_still_says_something(body: bytes) -> None:
    assert "(HTTP 500)" in refusal(Answer(500, {}, body)).message


def test_one_connection_serves_many_requests() -> None:
    with scripted(replies(Reply(body=b"a"))) as server, Client(server.url, 5) as client:
        assert [client.must("GET", "/").body for _ in range(3)] == [b"a"] * 3


def test_a_cut_connection_is_unavailable_and_the_next_request_connects_again() -> None:
    script = replies(Reply(cut=True), Reply(body=b"back"))
    with scripted(script) as server, Client(server.url, 5) as client:
        with pytest.raises(Failure) as caught:
            client.ask("GET", "/")
        assert caught.value.exit_code == failures.UNAVAILABLE
        assert client.ask("GET", "/").body == b"back"


def test_a_silent_server_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            Client(url, 0.05) as client,
            pytest.raises(Failure, match="no answer in time") as caught,
        ):
            client.ask("GET", "/")
    assert caught.value.exit_code == failures.UNAVAILABLE


def test_an_endless_answer_is_given_line_by_line() -> None:
    reply = Reply(headers={"content-type": "text/event-stream"}, body=b"a\r\nb\n\n")
    with (
        scripted(replies(reply)) as server,
        Client(server.url, 5) as client,
        client.follow("/", {"live": "sse"}) as (head, lines),
    ):
        assert head.status == 200
        assert list(lines) == [b"a", b"b", b""]


def test_a_refused_endless_answer_is_the_refusal() -> None:
    with (
        scripted(replies(Reply(404, body=PROBLEM))) as server,
        Client(server.url, 5) as client,
        pytest.raises(Failure, match="no such thing"),
        client.follow("/", {}),
    ):
        pass
