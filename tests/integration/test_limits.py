"""Limits have settings, and reaching one has an honest answer; operators can look inside."""

import contextlib
import json
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.testing.process import ServerProcess
from millstream.wire.bodies import VALUES_MAX
from tests.support.client import JSON, ROOT, TEXT, Client, Heard, connect, eventually, listen, shout
from tests.support.server import Servers


def is_whole(data: bytes) -> bool:
    return b"\r\n\r\n" in data


def test_a_body_over_the_limit_is_413(servers: Servers) -> None:
    client = Client(servers.start("--body-bytes-max", "1000").port)
    client.put("s", headers=TEXT)
    assert client.post("s", b"x" * 1000, TEXT).status == 204
    answer = client.post("s", b"x" * 1001, TEXT)
    assert (answer.status, answer.code) == (413, "body_too_large")
    chunked = b"POST /v1/stream/s HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert shout(client.port, chunked + b"3e9\r\n" + b"x" * 1001).statuses == [413]
    line = b"PUT /v1/stream/t HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n"
    # The client that asks first is told before it has sent anything.
    assert shout(client.port, line + b"Expect: 100-continue\r\n\r\n").statuses == [413]
    assert client.get("s").body == b"x" * 1000


def test_one_stream_too_many_is_429(servers: Servers) -> None:
    server = servers.start("--streams-max", "3")
    client = Client(server.port)
    assert [client.put(name).status for name in "abc"] == [201] * 3
    answer = client.put("d")
    assert (answer.status, answer.code) == (429, "too_many_streams")
    assert int(answer.headers["retry-after"]) > 0
    assert client.put("a").status == 200
    assert client.put("f", headers={"Stream-Forked-From": ROOT + "a"}).status == 429
    # A refused fork must not hold on to its source.
    assert client.delete("a").status == 204
    assert client.head("a").status == 404
    server.restart(kill=True)
    assert [client.put(name).status for name in "de"] == [201, 429]


def test_an_expired_stream_makes_room(servers: Servers) -> None:
    client = Client(servers.start("--streams-max", "1").port)
    assert client.put("a", headers={"Stream-TTL": "0"}).status == 201
    eventually(lambda: client.put("b").status == 201)


def test_one_producer_too_many_is_429(servers: Servers) -> None:
    client = Client(servers.start("--producers-max", "2").port)
    client.put("s", headers=TEXT)

    def send(who: str, seq: int) -> int:
        claim = {"Producer-Id": who, "Producer-Epoch": "0", "Producer-Seq": str(seq)}
        answer = client.post("s", b"x", {**TEXT, **claim})
        if answer.status == 429:
            assert answer.code == "too_many_producers"
            assert int(answer.headers["retry-after"]) > 0
        return answer.status

    assert [send("a", 0), send("b", 0), send("c", 0)] == [200, 200, 429]
    assert [send("a", 1), send("a", 1), send("c", 0)] == [200, 204, 429]
    client.put("other", headers=TEXT)
    assert client.post("s", b"x", TEXT).status == 204


def test_one_connection_too_many_is_503(servers: Servers) -> None:
    server = servers.start("--connections-max", "3")
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            held = stack.enter_context(connect(server.port))
            held.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert listen(held, is_whole).statuses == [200]
        heard = shout(server.port, b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert heard.statuses == [503]
        assert b"retry-after: " in heard.data
        assert heard.is_ended
    eventually(lambda: shout(server.port, b"GET /healthz HTTP/1.0\r\n\r\n").statuses == [200])


def ask_with(port: int, target: bytes, lines: bytes) -> Heard:
    return shout(port, b"GET " + target + b" HTTP/1.1\r\nHost: x\r\n" + lines + b"\r\n")


def test_headers_and_targets_have_their_limits(servers: Servers) -> None:
    flags = ("--header-bytes-max", "1000", "--header-count-max", "10", "--uri-bytes-max", "100")
    port = servers.start(*flags).port
    assert ask_with(port, b"/healthz", b"X: " + b"a" * 900 + b"\r\n").statuses == [200]
    assert ask_with(port, b"/healthz", b"X: " + b"a" * 1000 + b"\r\n").statuses == [431]
    assert ask_with(port, b"/healthz", b"X: " + b"a" * 10**6 + b"\r\n").statuses == [431]
    few, many = (b"".join(b"x%d: y\r\n" % k for k in range(count)) for count in (9, 10))
    assert ask_with(port, b"/healthz", few).statuses == [200]
    assert ask_with(port, b"/healthz", many).statuses == [431]
    assert ask_with(port, b"/healthz?" + b"a" * 91, b"").statuses == [200]
    assert ask_with(port, b"/healthz?" + b"a" * 92, b"").statuses == [414]
    heard = ask_with(port, b"/" + b"a" * 10**6, b"")
    assert heard.statuses == [414]
    assert b"uri_too_long" in heard.data


def test_a_full_inbox_is_503_and_what_was_taken_is_stored(servers: Servers) -> None:
    client = Client(servers.start("--inbox-commands-max", "1").port)
    client.put("s", headers=JSON)

    def send(number: int) -> int:
        answer = client.post("s", b"%d" % number, JSON)
        if answer.status == 503:
            assert answer.code == "overloaded"
            assert int(answer.headers["retry-after"]) > 0
        return answer.status

    counts: Counter[int] = Counter()
    stored = 0
    with ThreadPoolExecutor(16) as pool:
        for _ in range(20):
            counts += Counter(pool.map(send, range(50)))
            if counts[503]:
                break
    stored = len(client.get("s").json)
    assert set(counts) == {204, 503}
    assert stored == counts[204]


def test_a_log_that_may_not_grow_refuses_messages_and_serves_the_rest(servers: Servers) -> None:
    size = 256 * 1024
    flags = ("--log-file-bytes", str(size), "--log-bytes-max", str(3 * size))
    client = Client(servers.start(*flags).port)
    client.put("s", headers=TEXT)
    client.put("t", b"x", TEXT)
    answers = [client.post("s", b"x" * 50_000, TEXT) for _ in range(30)]
    refused = [answer for answer in answers if answer.status != 204]
    assert {(answer.status, answer.code) for answer in refused} == {(503, "log_full")}
    assert all(int(answer.headers["retry-after"]) > 0 for answer in refused)
    taken = len(answers) - len(refused)
    assert taken > 0
    assert len(client.get("s").body) == min(taken * 50_000, 1_050_000)
    assert client.delete("t").status == 204
    assert client.post("s", b"", {"Stream-Closed": "true"}).status == 204


@pytest.fixture
def client(shared_server: ServerProcess) -> Client:
    return Client(shared_server.port)


def test_the_server_tells_how_it_is(client: Client) -> None:
    assert client.ask("GET", "/healthz").json == {"status": "alive"}
    assert client.ask("GET", "/readyz").json == {"status": "ready"}
    for target in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/streams"):
        answer = client.ask("HEAD", target)
        assert (answer.status, answer.body) == (200, b"")
        assert answer.headers["cache-control"] == "no-store"


def test_metrics_are_prometheus_text_and_move(client: Client) -> None:
    answer = client.ask("GET", "/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    before = client.metric("millstream_messages_total")
    client.put("m", b"[1,2,3]", JSON)
    assert client.metric("millstream_messages_total") == before + 3
    assert client.metric("millstream_log_failed") == 0


def test_live_readers_are_counted(client: Client) -> None:
    client.put("live", headers=TEXT)
    before = client.metric("millstream_live_readers")
    with client.follow("live"):
        assert client.metric("millstream_live_readers") == before + 1
    eventually(lambda: client.metric("millstream_live_readers") == before)


def test_the_api_document_names_every_stream_route(client: Client) -> None:
    document = client.ask("GET", "/openapi.json").json
    assert document["openapi"].startswith("3.1")
    assert set(document["paths"]["/v1/stream/{path}"]) >= {"put", "post", "get", "head", "delete"}
    assert "/v1/streams" in document["paths"]


@pytest.mark.parametrize("target", ["/healthz", "/metrics", "/v1/streams", "/openapi.json"])
def test_another_method_is_405_and_says_which_would_do(client: Client, target: str) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        answer = client.ask(method, target, b"{}")
        assert (answer.status, answer.code) == (405, "method_not_allowed")
        assert "GET" in answer.headers["allow"]


@pytest.mark.parametrize("target", ["/", "/v1", "/v1/stream", "/v2/stream/a", "/healthz/", "//"])
def test_an_unknown_path_is_404(client: Client, target: str) -> None:
    answer = client.ask("GET", target)
    assert (answer.status, answer.code) == (404, "route_not_found")


def test_every_answer_has_the_security_headers(client: Client) -> None:
    client.put("safe", b"x", TEXT)
    answers = [client.get("safe"), client.get("none"), client.head("safe"), client.get("%zz")]
    with client.follow("safe") as live:
        headers = [live.headers, *(answer.headers for answer in answers)]
    for found in headers:
        assert found["x-content-type-options"] == "nosniff"
        assert "cross-origin-resource-policy" in found
        # Cross-origin access is off until origins are configured.
        assert not [name for name in found if name.startswith("access-control-")]
        assert "server" not in found


def test_a_problem_document_names_the_field_and_the_rule(client: Client) -> None:
    answer = client.put("p", headers={"Stream-TTL": "1e3"})
    problem = json.loads(answer.body)
    assert problem["field"] == "Stream-TTL"
    assert "non-negative integer" in problem["detail"]
    assert problem["type"].endswith(problem["code"])
    assert (problem["status"], problem["remedy"]) == (400, "fix")


def test_requests_of_one_connection_are_answered_in_order(client: Client) -> None:
    client.put("order", headers=JSON)
    line = b"POST /v1/stream/order HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    posts = b"".join(line + b"Content-Length: 2\r\n\r\n%d" % number for number in range(10, 60))
    with connect(client.port) as connection:
        connection.sendall(posts + b"GET /v1/stream/order HTTP/1.1\r\nHost: x\r\n\r\n")
        connection.shutdown(socket.SHUT_WR)
        heard = listen(connection)
    assert heard.statuses == [204] * 50 + [200]
    assert json.loads(heard.data.rsplit(b"\r\n\r\n", 1)[1]) == list(range(10, 60))


def test_a_body_of_too_many_values_is_refused_before_it_is_cut(server: ServerProcess) -> None:
    client = Client(server.port)
    client.put("many", headers=JSON)
    answer = client.post("many", b"[" + b"0," * VALUES_MAX + b"0]", JSON)
    assert answer.status == 413
    assert json.loads(answer.body)["code"] == "body_too_large"
    assert client.post("many", b"[" + b"0," * (VALUES_MAX - 1) + b"0]", JSON).status == 204
