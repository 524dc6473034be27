"""Faults that were measured on the reference server: each by name, and none of them here."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from millstream.testing.process import ServerProcess
from tests.support.client import JSON, TEXT, Answer, Client, eventually
from tests.support.server import Servers

VALUES = {
    "an integer of 64 bits": b"12345678901234567890",
    "the least integer of 64 bits": b"-9223372036854775808",
    "an integer of 40 digits": b"1234567890123456789012345678901234567890",
    "one point zero": b"1.0",
    "minus zero": b"-0.0",
    "an exponent": b"1E+2",
    "a number beyond doubles": b"1e400",
    "more digits than a double has": b"0.1000000000000000055511151231257827",
    "duplicate keys": b'{"a":1,"a":2}',
    "keys out of order": b'{"b":1,"10":2,"a":3,"9":4}',
    "the key __proto__": b'{"__proto__":{"x":1},"constructor":2}',
    "escapes": b'"\\u0041\\/\\u00e9\\ud83d\\ude00\\n"',
    "raw characters": '"\u00e9\U0001f600\u2028\u0085"'.encode(),
    "white space inside": b'{ "a" :\t[ 1 , 2 ] }',
    "what looks like a change message": b'{"headers":{"operation":"insert"},"value":1}',
    "null": b"null",
    "an empty string": b'""',
    "an empty array in an array": b"[]",
}


TEXTS = (
    *(" x", "  two", " ", "\tx", "a\n b\n  c", "data: x", ":comment", "id: 1", "\ufeffx", "x\n"),
    *("event: control\ndata:{}", "a\n\nevent: control\ndata: {}\n\nb", "\u2028\u0085\x0b\x0c"),
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with Servers(tmp_path_factory.mktemp("faults")) as started:
        yield started.start("--long-poll-ms", "300")


@pytest.fixture
def client(server: ServerProcess) -> Client:
    return Client(server.port)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A stream name that no other test uses."""
    return "t" + str(abs(hash(request.node.nodeid)))


def catch_up(client: Client, name: str) -> bytes:
    return client.get(name).body


def long_poll(client: Client, name: str) -> bytes:
    return client.get(name, "live=long-poll&offset=-1").body


def sse(client: Client, name: str) -> bytes:
    with client.follow(name) as live:
        return live.expect("data").text.encode()


@pytest.mark.parametrize("read", [catch_up, long_poll, sse])
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES.keys())
def test_a_json_value_keeps_its_bytes(
    client: Client, name: str, value: bytes, read: Callable[[Client, str], bytes]
) -> None:
    client.put(name, headers=JSON)
    # In an array, since a value that is an array itself would be taken apart.
    assert client.post(name, b"[" + value + b"]", JSON).status == 204
    assert client.post(name, b"[" + value + b",0]", JSON).status == 204
    assert read(client, name) == b"[" + value + b"," + value + b",0]"


def test_json_values_keep_their_bytes_over_a_crash_and_out_of_memory(servers: Servers) -> None:
    server = servers.start("--hot-bytes-max", "1")
    client = Client(server.port)
    body = b"[" + b",".join(VALUES.values()) + b"]"
    client.put("s", body, JSON)
    assert client.get("s").body == body
    server.restart(kill=True)
    assert client.get("s").body == body


def test_the_first_messages_of_a_created_stream_keep_their_bytes(client: Client, name: str) -> None:
    client.put(name, b' [ 1.0 , {"b":1,"a":2} ]', JSON)
    assert client.get(name).body == b'[1.0,{"b":1,"a":2}]'


@pytest.mark.parametrize(
    "body", [b"NaN", b"[Infinity]", b"-Infinity", b"01", b"1.", b"\xef\xbb\xbf1", b'"\xff"', b"1 2"]
)
def test_what_is_not_json_is_refused(client: Client, name: str, body: bytes) -> None:
    client.put(name, headers=JSON)
    answer = client.post(name, body, JSON)
    assert (answer.status, answer.code) == (400, "invalid_json")
    assert client.get(name).body == b"[]"


def ask_again(client: Client, name: str, tag: str) -> Answer:
    return client.get(name, "offset=-1", {"If-None-Match": tag})


def test_an_old_etag_is_never_304_after_delete_and_create(client: Client, name: str) -> None:
    client.put(name, b"one", TEXT)
    tag = client.get(name).headers["etag"]
    assert ask_again(client, name, tag).status == 304
    client.delete(name)
    client.put(name, b"two", TEXT)
    again = ask_again(client, name, tag)
    assert (again.status, again.body) == (200, b"two")
    assert again.headers["etag"] != tag


def test_an_old_etag_is_never_304_after_delete_restart_and_create(servers: Servers) -> None:
    server = servers.start()
    client = Client(server.port)
    client.put("s", b"one", TEXT)
    tag = client.get("s").headers["etag"]
    client.delete("s")
    for kill in (True, False):
        server.restart(kill=kill)
        client.put("s", b"two", TEXT)
        again = ask_again(client, "s", tag)
        assert (again.status, again.body) == (200, b"two")
        client.delete("s")


def test_an_old_etag_is_never_304_after_expiry_and_create(client: Client, name: str) -> None:
    client.put(name, b"one", {**TEXT, "Stream-TTL": "1"})
    tag = client.get(name).headers["etag"]
    eventually(lambda: client.head(name).status == 404)
    client.put(name, b"two", TEXT)
    again = ask_again(client, name, tag)
    assert (again.status, again.body) == (200, b"two")


def test_a_304_never_hides_the_end_of_a_stream(client: Client, name: str) -> None:
    client.put(name, b"one", TEXT)
    tag = client.get(name).headers["etag"]
    client.post(name, b"", {"Stream-Closed": "true"})
    again = ask_again(client, name, tag)
    assert again.status == 200
    assert again.headers["stream-closed"] == "true"


@pytest.mark.parametrize("form", ["{}", "W/{}", '"a", {}', '"a",W/{} , "b"', '"a,b", {}', "*"])
def test_weak_tags_and_lists_match(client: Client, name: str, form: str) -> None:
    client.put(name, b"one", TEXT)
    tag = client.get(name).headers["etag"]
    answer = ask_again(client, name, form.format(tag))
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["etag"] == tag


@pytest.mark.parametrize("form", ['"a"', 'W/"a", "b"', "", "W/", "{}x", "x{}"])
def test_other_tags_do_not_match(client: Client, name: str, form: str) -> None:
    client.put(name, b"one", TEXT)
    tag = client.get(name).headers["etag"]
    assert ask_again(client, name, form.format(tag)).status == 200


def test_an_expired_source_created_again_leaves_its_forks_alone(servers: Servers) -> None:
    server = servers.start()
    client = Client(server.port)
    client.put("source", b"old bytes", {**TEXT, "Stream-TTL": "1"})
    tag = client.get("source").headers["etag"]
    made = client.put(
        "fork", headers={"Stream-Forked-From": "/v1/stream/source", "Stream-TTL": "99"}
    )
    assert made.status == 201
    eventually(lambda: client.head("source").status in (404, 410))
    assert client.put("source", b"new", TEXT).status == 201

    def check(added: bytes) -> None:
        assert client.get("fork").body == b"old bytes" + added
        assert client.get("source").body == b"new"
        assert ask_again(client, "source", tag).status == 200

    check(b"")
    for kill, added in ((True, b"!"), (False, b"!!")):
        client.post("fork", b"!", TEXT)
        server.restart(kill=kill)
        check(added)
    client.put("second", headers={"Stream-Forked-From": "/v1/stream/source"})
    assert client.get("second").body == b"new"
    assert client.delete("fork").status == 204
    assert client.get("source").body == b"new"


@pytest.mark.parametrize(
    "extra",
    [
        {},
        {"Stream-TTL": "60"},
        {"Content-Type": "text/plain"},
        {"Stream-TTL": "60", "Content-Type": "TEXT/plain; charset=utf-8"},
        {"Stream-Fork-Offset": "0000000000000000_0000000000000000"},
        {"Stream-Fork-Offset": "-1", "Stream-Fork-Sub-Offset": "0"},
        {"Stream-Fork-Offset": "-1", "Stream-Fork-Sub-Offset": "2"},
        {"Stream-Expires-At": "2090-01-01T00:00:00Z"},
        {"Stream-Closed": "true"},
    ],
)
@pytest.mark.parametrize("ttl", [None, "30"])
def test_a_repeated_fork_is_200(
    client: Client, name: str, extra: dict[str, str], ttl: str | None
) -> None:
    client.put(name, b"abc", {**TEXT, **({"Stream-TTL": ttl} if ttl else {})})
    fork = {"Stream-Forked-From": f"/v1/stream/{name}", **extra}
    assert client.put(name + "f", headers=fork).status == 201
    assert client.put(name + "f", headers=fork).status == 200
    client.post(name, b"more", TEXT)
    assert client.put(name + "f", headers=fork).status == 200
    client.delete(name)
    assert client.put(name + "f", headers=fork).status == 200
    assert client.put(name + "f", headers={**fork, "Stream-TTL": "61"}).status in (400, 409)


def test_a_life_of_zero_seconds_works(client: Client, name: str) -> None:
    for _ in range(3):
        assert client.put(name, b"x", {**TEXT, "Stream-TTL": "0"}).status == 201
        assert client.get(name).status == 404
    assert client.put(name, b"x", TEXT).status == 201
    assert client.get(name).body == b"x"


def test_the_longest_life_works_and_survives_a_restart(servers: Servers) -> None:
    server = servers.start()
    client = Client(server.port)
    assert client.put("s", b"x", {**TEXT, "Stream-TTL": str(2**53 - 1)}).status == 201
    assert client.get("s").status == 200
    assert client.head("s").headers["stream-ttl"] == str(2**53 - 1)
    for kill in (True, False):
        server.restart(kill=kill)
        assert client.get("s").body == b"x"


@pytest.mark.parametrize("flag", ["true", "TRUE", "True", "tRuE"])
def test_closed_counts_in_any_case(client: Client, name: str, flag: str) -> None:
    client.put(name, headers=TEXT)
    answer = client.post(name, b"last", {**TEXT, "Stream-Closed": flag})
    assert (answer.status, answer.headers["stream-closed"]) == (204, "true")
    made = client.put(name + "x", headers={**TEXT, "Stream-Closed": flag})
    assert (made.status, made.headers["stream-closed"]) == (201, "true")


@pytest.mark.parametrize("flag", ["false", "1", "yes", "", "true true", "trueish"])
def test_any_other_closed_counts_as_absent(client: Client, name: str, flag: str) -> None:
    assert client.put(name, headers={**TEXT, "Stream-Closed": flag}).status == 201
    assert client.post(name, b"x", {**TEXT, "Stream-Closed": flag}).status == 204
    assert "stream-closed" not in client.head(name).headers
    assert client.post(name, b"", {**TEXT, "Stream-Closed": flag}).status == 400


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_survives_sse(client: Client, name: str, text: str) -> None:
    client.put(name, text.encode(), TEXT)
    with client.follow(name) as live:
        assert live.expect("data").text == text
        assert live.expect("control").json["upToDate"] is True


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n\r"])
def test_line_ends_cannot_end_an_event(client: Client, name: str, end: str) -> None:
    text = f"a{end}{end}event: control{end}data: {{}}{end}{end}b"
    client.put(name, text.encode(), {**TEXT, "Stream-Closed": "true"})
    with client.follow(name) as live:
        plain = text.replace("\r\n", "\n").replace("\r", "\n")
        assert [(e.kind, e.text if e.kind == "data" else "") for e in live] == [
            ("data", plain),
            ("control", ""),
        ]


def test_every_data_event_has_one_control_event(client: Client, name: str) -> None:
    client.put(name, headers=TEXT)
    with client.follow(name) as live:
        kinds = [live.expect("control").kind]
        for number in range(5):
            client.post(name, b"%d" % number, TEXT)
            kinds += [live.expect("data").kind, live.expect("control").kind]
        client.post(name, b"", {"Stream-Closed": "true"})
        assert live.expect("control").json["streamClosed"] is True
        assert live.next() is None


def test_a_duplicate_carries_its_original_offset(servers: Servers) -> None:
    server = servers.start()
    client = Client(server.port)
    client.put("s", headers=JSON)

    def send(seq: int) -> Answer:
        body = b"[" + b",".join([b"%d" % seq] * (1 + seq % 3)) + b"]"
        producer = {"Producer-Id": "p", "Producer-Epoch": "7", "Producer-Seq": str(seq)}
        return client.post("s", body, {**JSON, **producer})

    originals = []
    for seq in range(10):
        first = send(seq)
        assert first.status == 200
        originals.append(first.offset)
        client.post("s", b'"another writer"', JSON)
    assert len(set(originals)) == 10
    for kill in (None, True, False):
        if kill is not None:
            server.restart(kill=kill)
        repeats = [send(seq) for seq in range(10)]
        assert {answer.status for answer in repeats} == {204}
        assert [answer.offset for answer in repeats] == originals
        assert {answer.headers["producer-seq"] for answer in repeats} == {"9"}
    assert len(client.get("s").json) == sum(1 + seq % 3 for seq in range(10)) + 10


def follow_once(client: Client, name: str) -> None:
    with client.follow(name, "offset=now") as live:
        live.expect("control")


def producer(seq: int) -> dict[str, str]:
    return {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": str(seq)}


CLOSE = {"Stream-Closed": "true"}
ACCESSES: dict[str, Callable[[Client, str], object]] = {
    "a read": lambda c, n: c.get(n),
    "a read from now": lambda c, n: c.get(n, "offset=now"),
    "a read of nothing": lambda c, n: c.get(n, "offset=" + c.head(n).offset),
    "a read by time": lambda c, n: c.get(n, "at=2030-01-01T00:00:00Z"),
    "a read that is cached": lambda c, n: c.get(n, headers={"If-None-Match": "*"}),
    "a long-poll with data": lambda c, n: c.get(n, "live=long-poll&offset=-1"),
    "a long-poll that waits": lambda c, n: c.get(n, "live=long-poll&offset=now"),
    "a live reader": follow_once,
    "an append": lambda c, n: c.post(n, b"x", TEXT),
    "a producer's append": lambda c, n: c.post(n, b"x", {**TEXT, **producer(0)}),
    "a close": lambda c, n: c.post(n, b"", CLOSE),
    "a producer's close": lambda c, n: c.post(n, b"", {**CLOSE, **producer(0)}),
    "an append that closes": lambda c, n: c.post(n, b"x", {**TEXT, **CLOSE}),
}


def test_every_kind_of_access_but_head_slides_a_life(client: Client) -> None:
    soon = datetime.now(UTC) + timedelta(seconds=2)
    for kind in ("nobody came", "a look", *ACCESSES):
        client.put(slug(kind), b"x", {**TEXT, "Stream-TTL": "2"})
    client.put("fixed", b"x", {**TEXT, "Stream-Expires-At": soon.isoformat()})
    time.sleep(1.2)
    for kind, access in ACCESSES.items():
        access(client, slug(kind))
    assert client.get("fixed").status == 200
    eventually(lambda: client.head(slug("nobody came")).status == 404)
    eventually(lambda: client.head("fixed").status == 404, 0.5)
    alive = {kind for kind in ("a look", *ACCESSES) if client.head(slug(kind)).status == 200}
    assert alive == set(ACCESSES)
    assert {client.head(slug(kind)).headers["stream-ttl"] for kind in alive} == {"2"}
    for kind in ACCESSES:
        eventually(lambda kind=kind: client.head(slug(kind)).status == 404, 4)  # type: ignore[misc]


def slug(kind: str) -> str:
    return "slide/" + kind.replace(" ", "-").replace("'", "")


@pytest.mark.parametrize("query", ["offset=", "offset=-1&offset=-1", "offset=a%20b", "offset=1_1"])
def test_a_blank_or_repeated_offset_is_refused(client: Client, name: str, query: str) -> None:
    client.put(name, b"x", TEXT)
    assert client.get(name, query).status == 400


@pytest.mark.parametrize("ttl", ["", "+60", "-1", "1_0", "00060", "60.5", "1e3", "abc", "9" * 17])
def test_a_life_is_a_plain_integer(client: Client, name: str, ttl: str) -> None:
    answer = client.put(name, headers={**TEXT, "Stream-TTL": ttl})
    assert (answer.status, answer.json["field"]) == (400, "Stream-TTL")
    assert client.head(name).status == 404


@pytest.mark.parametrize("kind", ["text/plain", "text/event-stream", "TEXT/Plain;Charset=X"])
def test_a_content_type_comes_back_as_it_was_sent(client: Client, name: str, kind: str) -> None:
    client.put(name, b"x", {"Content-Type": kind})
    assert client.get(name).headers["content-type"] == kind
    assert client.head(name).headers["content-type"] == kind
