"""Answers have exactly the shapes that the protocol shows."""

from typing import Any

import msgspec
import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import Position
from millstream.core.subscriptions.commands import (
    Acked,
    Claimed,
    Delivery,
    LinkFacts,
    SubscriptionFacts,
)
from millstream.wire import wakes
from millstream.wire.problem import Rendered
from tests.support.subscribing import pull, webhook

LINK = LinkFacts("events/abc", False, Position(1, 42), Position(2, 84))
STREAM = {
    "path": "events/abc",
    "link_type": "glob",
    "acked_offset": "0000000000000001_0000000000000042",
    "tail_offset": "0000000000000002_0000000000000084",
    "has_pending": True,
}


def document(rendered: Rendered) -> Any:
    assert (b"content-type", b"application/json") in rendered.headers
    return msgspec.json.decode(rendered.body)


def test_a_webhook_subscription_shows_its_key_and_no_secret() -> None:
    facts = SubscriptionFacts(1, "sub-1", webhook(), 0, False, (LINK,), is_new=True)
    rendered = wakes.render_subscription(facts, "http://localhost", "ds_k")
    assert rendered.status == 201
    assert document(rendered) == {
        "id": "sub-1",
        "subscription_id": "sub-1",
        "type": "webhook",
        "pattern": "events/*",
        "streams": [{key: STREAM[key] for key in ("path", "link_type", "acked_offset")}],
        "webhook": {
            "url": "https://a.test",
            "signing": {
                "alg": "ed25519",
                "kid": "ds_k",
                "jwks_url": "http://localhost/v1/stream/__ds/jwks.json",
            },
        },
        "wake_stream": None,
        "lease_ttl_ms": 1000,
        "created_at": "1970-01-01T00:00:00.000Z",
        "status": "active",
        "description": None,
    }


def test_a_pull_wake_subscription_has_no_webhook() -> None:
    facts = SubscriptionFacts(1, "s", pull(), 0, True, ())
    rendered = wakes.render_subscription(facts, "", "ds_k")
    body = document(rendered)
    assert rendered.status == 200
    assert (body["webhook"], body["wake_stream"], body["status"]) == (None, "wake", "failed")


def test_a_claim_and_an_ack() -> None:
    claimed = Claimed(1, "s", 7, "w_1_7", 30_000, (LINK,))
    assert document(wakes.render_claim(claimed, "token")) == {
        "wake_id": "w_1_7",
        "generation": 7,
        "token": "token",
        "streams": [STREAM],
        "lease_ttl_ms": 30_000,
    }
    assert wakes.render_acked(Acked(False)).body == b'{"ok":true,"next_wake":false}'
    assert (wakes.render_nothing().status, wakes.render_nothing().body) == (204, b"")


def test_a_refusal_has_both_shapes() -> None:
    refused = Refused(code=Code.ALREADY_CLAIMED, detail="no", holder="w2", generation=7)
    rendered = wakes.render_refusal(refused)
    body = document(rendered)
    assert rendered.status == 409
    assert (body["code"], body["status"], body["detail"]) == ("already_claimed", 409, "no")
    assert body["error"] == {
        "code": "ALREADY_CLAIMED",
        "message": "no",
        "current_holder": "w2",
        "generation": 7,
    }


@pytest.mark.parametrize(
    "code,name",
    [
        (Code.FENCED, "FENCED"),
        (Code.WEBHOOK_URL_REJECTED, "WEBHOOK_URL_REJECTED"),
        (Code.NO_PENDING_WORK, "NO_PENDING_WORK"),
        (Code.UNAUTHORIZED, "TOKEN_INVALID"),
        (Code.INVALID_BODY, "INVALID_REQUEST"),
        (Code.SUBSCRIPTION_EXISTS, "SUBSCRIPTION_ALREADY_EXISTS"),
    ],
)
def test_errors_have_the_protocols_names(code: Code, name: str) -> None:
    assert document(wakes.render_refusal(Refused(code=code, detail="")))["error"]["code"] == name


def test_what_a_webhook_is_sent() -> None:
    delivery = Delivery(1, "sub/1", 7, "w_1_7", 0, 0, "https://a.test", "", (LINK,))
    assert msgspec.json.decode(wakes.delivery_body(delivery, "http://localhost", "tok")) == {
        "subscription_id": "sub/1",
        "wake_id": "w_1_7",
        "generation": 7,
        "streams": [STREAM],
        "callback_url": "http://localhost/v1/stream/__ds/subscriptions/sub%2F1/callback",
        "callback_token": "tok",
    }


@pytest.mark.parametrize(
    "body,expected",
    [
        (b'{"done": true}', True),
        (b'{"done": true, "more": [1]}', True),
        (b'{"done": false}', False),
        (b'{"done": "true"}', False),
        (b'{"done": 1}', False),
        (b"{}", False),
        (b"", False),
        (b"[true]", False),
        (b"ok", False),
        (b"\xff", False),
        (b"[" * 50_000, False),
    ],
)
def test_only_a_plain_done_counts(body: bytes, expected: bool) -> None:
    assert wakes.is_done(body) is expected


def test_public_keys_have_their_own_type_and_may_be_cached() -> None:
    rendered = wakes.render_jwks(b"{}")
    assert (b"content-type", b"application/jwk-set+json") in rendered.headers
    assert (b"cache-control", b"public, max-age=300") in rendered.headers
