"""The control API end to end, without a socket or a disk."""

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec
import pytest

from millstream.core.subscriptions.commands import Grant
from millstream.server.handlers.subscriptions import SubscriptionDoor
from millstream.server.http import Headers, Request, Response, Sink
from millstream.server.keys import CALLBACK, Keys
from millstream.server.settings import Settings
from tests.support.subscribing import FakeDesk, World

KEYS = Keys(bytes(32), b"k" * 32)
ROOT = "/v1/stream/__ds"
HOOK = {"type": "webhook", "pattern": "events/*", "webhook": {"url": "http://127.0.0.1:9/hook"}}
PULL = {"type": "pull-wake", "pattern": "events/*", "wake_stream": "wake", "lease_ttl_ms": 1000}


class FakeReply:
    """Keeps the one answer."""

    is_disconnected = False

    def __init__(self) -> None:
        self.answer: Response | None = None

    def send(self, response: Response) -> None:
        assert self.answer is None
        self.answer = response

    def start(self, status: int, headers: Headers) -> Sink:
        raise NotImplementedError

    def spawn(self, coro: Coroutine[object, object, None]) -> None:
        raise NotImplementedError

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        raise NotImplementedError


class Door:
    """A door over a world."""

    def __init__(self) -> None:
        self.world = World()
        self.world.create("wake")
        self.door = SubscriptionDoor(FakeDesk(self.world), KEYS, Settings())

    def call(
        self, method: str, path: str, body: object = None, token: str | None = None
    ) -> tuple[int, Any]:
        headers = {b"host": b"localhost:4437"}
        if body is not None:
            headers[b"content-type"] = b"application/json"
        if token is not None:
            headers[b"authorization"] = b"Bearer " + token.encode()
        raw = b"" if body is None else msgspec.json.encode(body)
        reply = FakeReply()
        self.door(Request(method, (ROOT + path).encode(), headers, raw), reply)
        assert reply.answer is not None
        answer = reply.answer.body
        assert isinstance(answer, bytes)
        return reply.answer.status, msgspec.json.decode(answer) if answer else None

    def error(
        self, method: str, path: str, body: object = None, token: str | None = None
    ) -> tuple[int, str]:
        status, answer = self.call(method, path, body, token)
        return status, answer["error"]["code"]


@pytest.fixture
def door() -> Door:
    return Door()


def test_a_subscription_is_made_confirmed_shown_and_removed(door: Door) -> None:
    status, made = door.call("PUT", "/subscriptions/s", HOOK)
    assert status == 201
    assert made["webhook"]["signing"] == {
        "alg": "ed25519",
        "kid": KEYS.kid,
        "jwks_url": "http://localhost:4437/v1/stream/__ds/jwks.json",
    }
    assert door.call("PUT", "/subscriptions/s", HOOK) == (200, made)
    assert door.call("GET", "/subscriptions/s") == (200, made)
    changed = HOOK | {"description": "other"}
    expected = (409, "SUBSCRIPTION_ALREADY_EXISTS")
    assert door.error("PUT", "/subscriptions/s", changed) == expected
    assert door.call("DELETE", "/subscriptions/s") == (204, None)
    assert door.error("GET", "/subscriptions/s") == (404, "SUBSCRIPTION_NOT_FOUND")


def test_unsafe_webhooks_are_rejected(door: Door) -> None:
    body = HOOK | {"webhook": {"url": "http://10.0.0.1/hook"}}
    assert door.error("PUT", "/subscriptions/s", body) == (400, "WEBHOOK_URL_REJECTED")


def test_links_are_added_and_removed(door: Door) -> None:
    door.call("PUT", "/subscriptions/s", HOOK)
    body = {"streams": ["manual/a", "manual/b"]}
    assert door.call("POST", "/subscriptions/s/streams", body) == (204, None)
    assert door.call("DELETE", "/subscriptions/s/streams/manual%2Fb") == (204, None)
    assert door.call("DELETE", "/subscriptions/s/streams/manual/b") == (204, None)
    _, shown = door.call("GET", "/subscriptions/s")
    assert [link["path"] for link in shown["streams"]] == ["manual/a"]
    assert door.error("POST", "/subscriptions/s/streams", {"streams": []})[0] == 400


def test_work_is_claimed_acked_and_released(door: Door) -> None:
    door.call("PUT", "/subscriptions/s", PULL)
    assert door.error("POST", "/subscriptions/s/claim", {"worker": "w"}) == (409, "NO_PENDING_WORK")
    door.world.create("events/a", "1")
    status, held = door.call("POST", "/subscriptions/s/claim", {"worker": "w1"})
    assert (status, held["generation"], held["lease_ttl_ms"]) == (200, 1, 1000)
    status, busy = door.call("POST", "/subscriptions/s/claim", {"worker": "w2"})
    assert (status, busy["error"]["current_holder"]) == (409, "w1")
    wake = {"wake_id": held["wake_id"], "generation": held["generation"]}
    acks = [{"stream": "events/a", "offset": held["streams"][0]["tail_offset"]}]
    done = wake | {"acks": acks, "done": True}
    answer = door.call("POST", "/subscriptions/s/ack", done, held["token"])
    assert answer == (200, {"ok": True, "next_wake": False})
    assert door.error("POST", "/subscriptions/s/ack", done, held["token"]) == (409, "FENCED")
    assert door.error("POST", "/subscriptions/s/release", wake, held["token"]) == (409, "FENCED")
    door.world.append("events/a")
    _, held = door.call("POST", "/subscriptions/s/claim", {"worker": "w1"})
    wake = {"wake_id": held["wake_id"], "generation": held["generation"]}
    assert door.call("POST", "/subscriptions/s/release", wake, held["token"]) == (204, None)


def test_a_callback_needs_the_token_of_its_wake(door: Door) -> None:
    door.call("PUT", "/subscriptions/s", HOOK)
    door.call("PUT", "/subscriptions/t", HOOK)
    door.world.create("events/a", "1")
    body = {"wake_id": "w_1_1", "generation": 1, "done": True}
    path = "/subscriptions/s/callback"
    foreign = KEYS.token(Grant(CALLBACK, "t", 2, 1, "w_2_1"))
    claim = KEYS.token(Grant("claim", "s", 1, 1, "w_1_1"))
    for token in (None, "nonsense", "ümlaut", foreign, claim):
        assert door.error("POST", path, body, token) == (401, "TOKEN_INVALID")
    token = KEYS.token(Grant(CALLBACK, "s", 1, 1, "w_1_1"))
    assert door.error("POST", path, {"wake_id": 1}, token) == (400, "INVALID_REQUEST")
    bad = body | {"acks": [{"stream": "events/a", "offset": "now"}]}
    assert door.error("POST", path, bad, token) == (400, "INVALID_OFFSET")
    assert door.call("POST", path, body, token) == (200, {"ok": True, "next_wake": True})


def test_the_public_key_is_published(door: Door) -> None:
    status, jwks = door.call("GET", "/jwks.json")
    assert (status, jwks["keys"][0]["kid"]) == (200, KEYS.kid)
    assert door.error("POST", "/jwks.json")[0] == 405


@pytest.mark.parametrize("path", ["", "/", "/other", "/subscriptions", "/subscriptions/s/what"])
def test_other_control_paths_are_nothing(door: Door, path: str) -> None:
    assert door.error("GET", path) == (404, "ROUTE_NOT_FOUND")


def test_other_methods_are_told_which_apply(door: Door) -> None:
    assert door.error("PATCH", "/subscriptions/s")[0] == 405
    assert door.error("GET", "/subscriptions/s/claim")[0] == 405
    assert door.error("PUT", "/subscriptions/s/streams/a")[0] == 405
    assert door.call("OPTIONS", "/subscriptions/s") == (204, None)


def test_a_bad_id_is_refused(door: Door) -> None:
    assert door.error("GET", "/subscriptions/a%2Fb") == (400, "INVALID_REQUEST")
