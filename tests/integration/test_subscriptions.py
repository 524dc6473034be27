"""Subscriptions against a real server: webhooks, claims, fencing, and all of it across kill -9."""

import base64
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from millstream.testing.process import ServerProcess
from tests.support.receiver import Notification, Receiver, receiving


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        return self.status, self.json["error"]["code"]


def call(
    method: str, url: str, body: object = None, token: str | None = None, timeout_s: float = 40
) -> Answer:
    raw = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"} if body is not None else {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(url, raw, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


class Client:
    """Calls of one subscription on one server."""

    def __init__(self, server: ServerProcess, sub_id: str = "sub") -> None:
        self.server = server
        self.url = f"{server.stream_url}/__ds/subscriptions/{sub_id}"

    def stream(self, path: str) -> str:
        return f"{self.server.stream_url}/{path}"

    def create(self, path: str, *values: object) -> None:
        assert call("PUT", self.stream(path), list(values)).status == 201

    def append(self, path: str, value: object) -> None:
        assert call("POST", self.stream(path), value).status in (200, 204)

    def webhook(self, receiver: Receiver, ttl_ms: int = 600_000) -> None:
        body = {
            "type": "webhook",
            "pattern": "events/*",
            "webhook": {"url": receiver.url},
            "lease_ttl_ms": ttl_ms,
        }
        assert call("PUT", self.url, body).status == 201

    def pull(self, ttl_ms: int = 600_000) -> None:
        self.create("wake")
        body = {
            "type": "pull-wake",
            "pattern": "events/*",
            "wake_stream": "wake",
            "lease_ttl_ms": ttl_ms,
        }
        assert call("PUT", self.url, body).status == 201

    def claim(self, worker: str = "w1") -> Answer:
        return call("POST", f"{self.url}/claim", {"worker": worker})

    def facts(self) -> Any:
        return call("GET", self.url).json

    def until(self, condition: Callable[[Any], bool]) -> Any:
        """Look at the subscription until it is as it should be."""
        facts = None
        for _ in range(2000):
            facts = self.facts()
            if condition(facts):
                return facts
            # Each look is a round trip through the engine, which gives it time to go on.
        raise AssertionError(facts)

    def wakes(self, count: int) -> list[Any]:
        """Follow the wake stream until it has so many wakes."""
        offset = "-1"
        found: list[Any] = []
        while len(found) < count:
            page = call("GET", f"{self.stream('wake')}?offset={offset}&live=long-poll")
            found += page.json if page.status == 200 else []
            offset = {k.lower(): v for k, v in page.headers.items()}["stream-next-offset"]
        return found


def acks_of(claimed: Any, *, done: bool = True) -> dict[str, Any]:
    """Ack everything that a claim or a webhook told of."""
    streams = [each for each in claimed["streams"] if each["has_pending"]]
    acks = [{"stream": each["path"], "offset": each["tail_offset"]} for each in streams]
    wake = {"wake_id": claimed["wake_id"], "generation": claimed["generation"]}
    return wake | {"acks": acks, "done": done}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as started:
        yield started


def verify(client: Client, notification: Notification) -> None:
    """Check a signature as a receiver would: raw body, key by name from the published set."""
    jwks_url = client.facts()["webhook"]["signing"]["jwks_url"]
    keys = {key["kid"]: key for key in call("GET", jwks_url).json["keys"]}
    parts = dict(part.split("=", 1) for part in notification.signature.split(","))
    public, signature = (
        base64.urlsafe_b64decode(text + "==")
        for text in (keys[parts["kid"]]["x"], parts["ed25519"])
    )
    signed = parts["t"].encode() + b"." + notification.body
    Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)


def acked(path: str, offset: str) -> Callable[[Any], bool]:
    return lambda facts: (
        {"path": path, "link_type": "glob", "acked_offset": offset} in (facts["streams"])
    )


def test_a_webhook_is_signed_and_its_done_acks_what_was_sent(
    server: ServerProcess, receiver: Receiver
) -> None:
    client = Client(server)
    receiver.answer = {"done": True}
    client.webhook(receiver)
    client.create("events/a", 1)
    notification = receiver.next()
    verify(client, notification)
    (stream,) = notification.json["streams"]
    assert notification.json["callback_url"] == f"{client.url}/callback"
    client.until(acked("events/a", stream["tail_offset"]))


def test_a_callback_acks_and_a_stale_one_is_fenced_by_name(
    server: ServerProcess, receiver: Receiver
) -> None:
    client = Client(server)
    client.webhook(receiver)
    client.create("events/a", 1)
    wake = receiver.next().json
    body, token = acks_of(wake), wake["callback_token"]
    assert call("POST", wake["callback_url"], body, token).json == {"ok": True, "next_wake": False}
    assert call("POST", wake["callback_url"], body, token).error == (409, "FENCED")
    forged = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    assert call("POST", wake["callback_url"], body, forged).error == (401, "TOKEN_INVALID")
    assert call("POST", f"{client.url}/ack", body, token).error == (401, "TOKEN_INVALID")


def test_a_receiver_that_never_calls_back_is_woken_again_with_a_new_generation(
    server: ServerProcess, receiver: Receiver
) -> None:
    client = Client(server)
    client.webhook(receiver, ttl_ms=1000)
    client.create("events/a", 1)
    first, second = receiver.next().json, receiver.next().json
    assert (first["generation"], second["generation"]) == (1, 2)
    stale = call("POST", first["callback_url"], acks_of(first), first["callback_token"])
    assert stale.error == (409, "FENCED")


@pytest.mark.parametrize("kill", [True, False])
def test_a_retry_schedule_goes_on_after_the_server_was_restarted(
    server: ServerProcess, receiver: Receiver, kill: bool
) -> None:
    client = Client(server)
    receiver.status = 500
    client.webhook(receiver)
    client.create("events/a", 1)
    first = receiver.next().json
    client.until(lambda facts: facts["status"] == "failed")
    server.restart(kill=kill)
    receiver.status, receiver.answer = 200, {"done": True}
    again = receiver.next()
    while again.status != 200:
        # This attempt was made before the receiver came round.
        again = receiver.next()
    assert (again.json["wake_id"], again.json["generation"]) == (first["wake_id"], 1)
    verify(client, again)
    facts = client.until(acked("events/a", again.json["streams"][0]["tail_offset"]))
    assert facts["status"] == "active"


def test_a_callback_is_taken_by_the_server_that_comes_after_a_kill(
    server: ServerProcess, receiver: Receiver
) -> None:
    client = Client(server)
    client.webhook(receiver)
    client.create("events/a", 1)
    first = receiver.next().json
    server.restart(kill=True)
    done = call("POST", first["callback_url"], acks_of(first), first["callback_token"])
    assert done.json == {"ok": True, "next_wake": False}
    assert client.facts()["streams"][0]["acked_offset"] == first["streams"][0]["tail_offset"]


def test_work_is_claimed_by_one_acked_and_claimed_again(server: ServerProcess) -> None:
    client = Client(server)
    client.pull()
    assert client.claim().error == (409, "NO_PENDING_WORK")
    client.create("events/a", 1)
    (wake,) = client.wakes(1)
    assert (wake["type"], wake["subscription_id"], wake["stream"]) == ("wake", "sub", "events/a")
    held = client.claim("w1").json
    busy = client.claim("w2")
    assert busy.error == (409, "ALREADY_CLAIMED")
    assert busy.json["error"]["current_holder"] == "w1"
    done = call("POST", f"{client.url}/ack", acks_of(held), held["token"])
    assert done.json == {"ok": True, "next_wake": False}
    client.append("events/a", 2)
    assert client.claim("w2").json["generation"] == held["generation"] + 1


def test_a_lease_and_its_token_survive_a_kill_and_nobody_else_gets_in(
    server: ServerProcess,
) -> None:
    client = Client(server)
    client.pull()
    client.create("events/a", 1)
    held = client.claim("w1").json
    server.restart(kill=True)
    busy = client.claim("w2")
    assert busy.error == (409, "ALREADY_CLAIMED")
    assert busy.json["error"]["current_holder"] == "w1"
    heartbeat = call("POST", f"{client.url}/ack", acks_of(held, done=False), held["token"])
    assert heartbeat.json == {"ok": True, "next_wake": False}
    server.restart(kill=True)
    assert client.facts()["streams"][0]["acked_offset"] == held["streams"][0]["tail_offset"]
    done = call("POST", f"{client.url}/ack", acks_of(held), held["token"])
    assert done.json == {"ok": True, "next_wake": False}
    assert client.claim("w2").error == (409, "NO_PENDING_WORK")


def test_a_lease_runs_out_also_after_a_kill_and_its_holder_is_fenced(
    server: ServerProcess,
) -> None:
    client = Client(server)
    client.pull(ttl_ms=1000)
    client.create("events/a", 1)
    old = client.claim("w1").json
    server.restart(kill=True)
    assert [wake["generation"] for wake in client.wakes(2)] == [1, 2]
    new = client.claim("w2").json
    assert new["generation"] == 2
    for action, body in (("ack", acks_of(old)), ("release", acks_of(old))):
        assert call("POST", f"{client.url}/{action}", body, old["token"]).error == (409, "FENCED")
    assert call("POST", f"{client.url}/ack", acks_of(new), new["token"]).status == 200


def test_released_work_is_announced_again(server: ServerProcess) -> None:
    client = Client(server)
    client.pull()
    client.create("events/a", 1)
    held = client.claim().json
    body = {"wake_id": held["wake_id"], "generation": held["generation"]}
    assert call("POST", f"{client.url}/release", body, held["token"]).status == 204
    assert [wake["generation"] for wake in client.wakes(2)] == [1, 2]


def test_acks_never_move_back_nor_past_the_end(server: ServerProcess) -> None:
    client = Client(server)
    client.pull()
    client.create("events/a", 1, 2)
    held = client.claim().json
    body = acks_of(held, done=False)
    assert call("POST", f"{client.url}/ack", body, held["token"]).status == 200
    for offset in ("0000000000000000_0000000000000000", "9" * 16 + "_" + "9" * 16):
        bad = body | {"acks": [{"stream": "events/a", "offset": offset}]}
        answer = call("POST", f"{client.url}/ack", bad, held["token"])
        assert answer.error == (400, "INVALID_OFFSET")
    assert client.facts()["streams"][0]["acked_offset"] == body["acks"][0]["offset"]


def test_a_deleted_subscription_fences_what_is_in_flight(server: ServerProcess) -> None:
    client = Client(server)
    client.pull()
    client.create("events/a", 1)
    held = client.claim().json
    assert call("DELETE", client.url).status == 204
    gone = call("POST", f"{client.url}/ack", acks_of(held), held["token"])
    assert gone.error == (404, "SUBSCRIPTION_NOT_FOUND")
    body = {"type": "pull-wake", "pattern": "events/*", "wake_stream": "wake"}
    assert call("PUT", client.url, body).status == 201
    fenced = call("POST", f"{client.url}/ack", acks_of(held), held["token"])
    assert fenced.error == (409, "FENCED")


def test_links_set_up_and_keys_survive_a_kill(server: ServerProcess, receiver: Receiver) -> None:
    client = Client(server)
    client.create("events/old", 1, 2)
    client.webhook(receiver)
    call("POST", f"{client.url}/streams", {"streams": ["named/x"]})
    before = client.facts()
    jwks = call("GET", f"{client.server.stream_url}/__ds/jwks.json").body
    server.restart(kill=True)
    assert client.facts() == before
    assert call("GET", f"{client.server.stream_url}/__ds/jwks.json").body == jwks
    client.create("named/x", 1)
    assert [each["path"] for each in receiver.next().json["streams"] if each["has_pending"]] == [
        "named/x"
    ]


def test_unsafe_webhooks_are_rejected(server: ServerProcess) -> None:
    client = Client(server)
    for url in ("http://10.0.0.1/hook", "https://169.254.169.254/", "http://worker.example/"):
        body = {"type": "webhook", "pattern": "events/*", "webhook": {"url": url}}
        assert call("PUT", client.url, body).error == (400, "WEBHOOK_URL_REJECTED")
