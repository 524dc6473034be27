"""Requests are parsed strictly, and a refusal names the field and the rule."""

import msgspec
import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import Position
from millstream.core.subscriptions.commands import Ack, AckWake, Grant, ReleaseWake
from millstream.core.subscriptions.events import SubscriptionConfig
from millstream.wire import subscriptions as wire

JSON = {b"content-type": b"application/json"}
ROOT = b"/v1/stream/__ds/subscriptions/"
GRANT = Grant("claim", "s", 1, 2, "w_1_2")


def config(**fields: object) -> SubscriptionConfig | Refused:
    body = wire.parse_body(wire.CreateBody, JSON, msgspec.json.encode(fields))
    return body if isinstance(body, Refused) else wire.config_of(body)


def refused(answer: object) -> Refused:
    assert isinstance(answer, Refused), answer
    return answer


@pytest.mark.parametrize(
    "raw,target",
    [
        (b"a", wire.Target("a")),
        (b"a%20b", wire.Target("a b")),
        (b"a/streams", wire.Target("a", "streams")),
        (b"a/streams/x%2Fy", wire.Target("a", "streams", "x/y")),
        (b"a/streams/x/y", wire.Target("a", "streams", "x/y")),
        (b"a/callback", wire.Target("a", "callback")),
        (b"a/claim", wire.Target("a", "claim")),
        (b"a/ack", wire.Target("a", "ack")),
        (b"a/release", wire.Target("a", "release")),
        (b"a/other", None),
        (b"a/ack/more", None),
        (b"a/", None),
    ],
)
def test_paths_name_subscriptions_and_what_to_do(raw: bytes, target: wire.Target | None) -> None:
    assert wire.parse_target(ROOT + raw) == target


@pytest.mark.parametrize(
    "raw", [b"", b"a%2Fb", b"%00", b"%ff", b"..", b"a" * 257, b"a/streams/..", b"a/streams/%ff"]
)
def test_ids_and_paths_that_could_be_misread_are_refused(raw: bytes) -> None:
    assert refused(wire.parse_target(ROOT + raw)).code is Code.INVALID_PATH


def test_other_paths_name_nothing() -> None:
    assert wire.parse_target(b"/v1/stream/__ds/other") is None


def test_a_set_up_is_normalised() -> None:
    assert config(
        type="webhook",
        pattern="/events/*",
        streams=["b", "/a/", "b"],
        webhook={"url": "https://worker.example/hooks"},
        wake_stream="wake/pool",
        description="d",
    ) == SubscriptionConfig(
        "webhook", "events/*", ("a", "b"), "https://worker.example/hooks", None, 30_000, "d"
    )
    assert config(type="pull-wake", streams=["a"], wake_stream="w", lease_ttl_ms=1000) == (
        SubscriptionConfig("pull-wake", None, ("a",), None, "w", 1000, None)
    )


HOOK = {"url": "https://worker.example"}


@pytest.mark.parametrize(
    "field,fields",
    [
        ("type", {"pattern": "a"}),
        ("type", {"type": "push", "pattern": "a"}),
        ("streams", {"type": "webhook", "webhook": HOOK}),
        ("streams", {"type": "webhook", "webhook": HOOK, "streams": []}),
        ("streams[1]", {"type": "webhook", "webhook": HOOK, "streams": ["a", 1]}),
        ("streams", {"type": "webhook", "webhook": HOOK, "streams": ["a//b"]}),
        ("streams", {"type": "webhook", "webhook": HOOK, "streams": ["__ds/a"]}),
        ("pattern", {"type": "webhook", "webhook": HOOK, "pattern": "a/b*"}),
        ("pattern", {"type": "webhook", "webhook": HOOK, "pattern": "a/../b"}),
        ("pattern", {"type": "webhook", "webhook": HOOK, "pattern": 7}),
        ("webhook", {"type": "webhook", "pattern": "a"}),
        ("webhook.url", {"type": "webhook", "pattern": "a", "webhook": {}}),
        ("wake_stream", {"type": "pull-wake", "pattern": "a"}),
        ("wake_stream", {"type": "pull-wake", "pattern": "a", "wake_stream": "a\\b"}),
        ("streams", {"type": "pull-wake", "streams": ["w"], "wake_stream": "w"}),
        ("lease_ttl_ms", {"type": "webhook", "webhook": HOOK, "pattern": "a", "lease_ttl_ms": 999}),
        ("lease_ttl_ms", {"type": "webhook", "webhook": HOOK, "pattern": "a", "lease_ttl_ms": 1.5}),
        (
            "lease_ttl_ms",
            {"type": "webhook", "webhook": HOOK, "pattern": "a", "lease_ttl_ms": True},
        ),
        ("lease_ttl", {"type": "webhook", "webhook": HOOK, "pattern": "a", "lease_ttl": 1000}),
    ],
)
def test_a_bad_set_up_is_refused_by_the_name_of_its_field(
    field: str, fields: dict[str, object]
) -> None:
    answer = refused(config(**fields))
    assert (answer.code, answer.field) == (Code.INVALID_BODY, field)
    assert field.split("[", maxsplit=1)[0] in answer.detail


@pytest.mark.parametrize("body", [b"{", b"\xff", b"nope", b"[" * 100_000, b'{"worker": NaN}'])
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    answer = refused(wire.parse_body(wire.ClaimBody, JSON, body))
    assert answer.code in (Code.INVALID_JSON, Code.INVALID_BODY)


def test_a_body_needs_its_content_type_and_must_be_there() -> None:
    assert refused(wire.parse_body(wire.ClaimBody, {}, b"{}")).code is Code.INVALID_HEADER
    form = {b"content-type": b"application/x-www-form-urlencoded"}
    assert refused(wire.parse_body(wire.ClaimBody, form, b"{}")).code is Code.INVALID_HEADER
    assert refused(wire.parse_body(wire.ClaimBody, JSON, b"")).code is Code.EMPTY_BODY


def test_acks_become_positions() -> None:
    body = wire.parse_body(
        wire.AckBody,
        {b"content-type": b"application/json; charset=utf-8"},
        b'{"wake_id":"w_1_2","generation":2,"done":true,"more":1,'
        b'"acks":[{"stream":"/a/b","offset":"0000000000000005_0000000000000003"}]}',
    )
    assert isinstance(body, wire.AckBody)
    expected = AckWake("s", GRANT, "w_1_2", 2, (Ack("a/b", Position(5, 3)),), True)
    assert wire.ack_of("s", GRANT, body) == expected


@pytest.mark.parametrize(
    "offset", ["-1", "now", "", "7", "0000000000000005_0000000000000000", "x" * 33]
)
def test_an_ack_of_no_message_is_refused(offset: str) -> None:
    body = wire.AckBody("w", 1, (wire.AckItem("a", offset),))
    answer = refused(wire.ack_of("s", GRANT, body))
    assert (answer.code, answer.field) == (Code.INVALID_OFFSET, "acks[0].offset")


def test_releases_and_links_are_parsed() -> None:
    assert wire.release_of("s", GRANT, wire.ReleaseBody("w", 1)) == ReleaseWake("s", GRANT, "w", 1)
    assert wire.names_of(wire.StreamsBody(("b", "/a", "b"))) == ("b", "a")
    assert refused(wire.names_of(wire.StreamsBody(("a/..",)))).field == "streams"
    assert refused(wire.parse_body(wire.StreamsBody, JSON, b'{"streams":[]}')).field == "streams"


def test_a_token_comes_in_the_authorization_header() -> None:
    assert wire.bearer({b"authorization": b"Bearer abc"}) == b"abc"
    assert wire.bearer({b"authorization": b"bearer  abc "}) == b"abc"
    for value in (b"", b"Bearer", b"Bearer ", b"Basic abc"):
        answer = refused(wire.bearer({b"authorization": value}))
        assert (answer.code, answer.field) == (Code.UNAUTHORIZED, "Authorization")
    assert refused(wire.bearer({})).code is Code.UNAUTHORIZED
