"""The courier posts what is due, reports how it went, and stops in order."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.subscriptions.commands import (
    Delivery,
    GetDelivery,
    Outcome,
    WebhookOutcome,
)
from millstream.core.subscriptions.state import Phase
from millstream.server import webhooks
from millstream.server.keys import CALLBACK, Keys
from millstream.server.settings import Settings
from millstream.server.webhooks import Courier, guard_of
from tests.support.receiver import DONE, OK, Scripted, scripted
from tests.support.subscribing import FakeDesk, World, webhook

KEYS = Keys(bytes(32), b"k" * 32)

pytestmark = pytest.mark.anyio


class Post:
    """A courier over a world with one webhook subscription."""

    def __init__(self, receiver: Scripted, settings: Settings) -> None:
        self.receiver = receiver
        self.world = World()
        self.world.subscribe("s", webhook(url=receiver.url))
        self.desk = FakeDesk(self.world)
        self.courier = Courier(self.desk, KEYS, settings, lambda: 1234.5)

    def work(self) -> None:
        self.world.create("events/a", "1")
        for event in self.world.last:
            for observer in self.desk.observers:
                observer(event)

    def outcomes(self) -> list[Outcome]:
        return [each.outcome for each in self.desk.asked if isinstance(each, WebhookOutcome)]

    async def reported(self, count: int = 1) -> list[Outcome]:
        await self.desk.until(lambda: len(self.outcomes()) >= count)
        return self.outcomes()


@asynccontextmanager
async def posting(*answers: bytes, public_url: str | None = None) -> AsyncIterator[Post]:
    async with scripted(*answers) as receiver:
        post = Post(receiver, Settings(public_url=public_url, stop_ms=50))
        post.courier.start("http://own.test")
        try:
            yield post
        finally:
            await post.courier.stop()


async def test_a_wake_is_posted_with_its_signature_and_token() -> None:
    async with posting(OK) as post:
        post.work()
        assert await post.reported() == [Outcome.ACCEPTED]
        request, body = post.receiver.requests[0], post.receiver.body()
        raw = request.partition(b"\r\n\r\n")[2]
        assert f"Webhook-Signature: {KEYS.signature(raw, 1234)}\r\n".encode() in request
        assert body["callback_url"] == "http://127.0.0.1/v1/stream/__ds/subscriptions/s/callback"
        grant = KEYS.grant(body["callback_token"].encode(), CALLBACK, "s")
        assert grant is not None
        assert (grant.generation, grant.wake_id) == (body["generation"], body["wake_id"])
        assert [stream["path"] for stream in body["streams"]] == ["events/a"]
        assert post.world.sub().phase is Phase.HELD


async def test_the_public_url_goes_before_the_one_the_creator_used() -> None:
    async with posting(OK, public_url="https://streams.test/") as post:
        post.work()
        await post.reported()
        url = post.receiver.body()["callback_url"]
        assert url == "https://streams.test/v1/stream/__ds/subscriptions/s/callback"


async def test_done_acks_and_leaves_it_idle() -> None:
    async with posting(DONE) as post:
        post.work()
        assert await post.reported() == [Outcome.DONE]
        assert (post.world.sub().phase, post.world.pending()) == (Phase.IDLE, [])


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 500 No\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 410 Gone\r\ncontent-length: 13\r\n\r\n" + b'{"done":true}',
        b"",
    ],
)
async def test_a_failure_is_tried_again_on_schedule(answer: bytes) -> None:
    async with posting(answer, DONE) as post:
        post.work()
        assert await post.reported() == [Outcome.FAILED]
        assert post.world.sub().is_failing
        post.desk.advance(1200)
        assert await post.reported(2) == [Outcome.FAILED, Outcome.DONE]
        first, second = post.receiver.body(0), post.receiver.body(1)
        assert (first["wake_id"], first["generation"]) == (second["wake_id"], second["generation"])


async def test_a_url_that_is_no_longer_allowed_is_not_posted_to() -> None:
    async with posting(OK) as post:
        post.courier._guard = guard_of(Settings(host="0.0.0.0", insecure_no_auth=True))
        post.work()
        assert await post.reported() == [Outcome.FAILED]
        assert post.receiver.requests == []


async def test_a_wake_is_posted_once_at_a_time_and_not_when_it_is_over() -> None:
    async with posting(OK) as post:
        post.work()
        post.courier.deliver(1, 1)
        post.courier.deliver(1, 7)
        await post.reported()
        await asyncio.gather(*post.courier._active.values())
        assert len(post.receiver.requests) == 1
        assert post.outcomes() == [Outcome.ACCEPTED]


async def test_an_engine_without_room_is_asked_again() -> None:
    async with posting(DONE) as post:
        post.desk.refusals = [Refused(code=Code.OVERLOADED, detail="")]
        post.work()
        await asyncio.gather(*post.courier._active.values())
        assert isinstance(post.desk.asked[-1], GetDelivery)
        post.desk.advance(1000)
        assert await post.reported() == [Outcome.DONE]


async def test_a_stop_cuts_what_hangs_and_begins_nothing() -> None:
    async with posting(b"hang") as post:
        post.work()
        await post.desk.until(lambda: GetDelivery(1, 1) in post.desk.asked)
        await post.courier.stop()
        post.courier.deliver(1, 1)
        assert post.courier._active == {}
        assert post.outcomes() == []


async def test_a_broken_delivery_is_logged_and_forgotten(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(webhooks, "within", broken)
    async with posting(OK) as post:
        post.work()
        await asyncio.wait(list(post.courier._active.values()))
        await asyncio.sleep(0)
        assert post.courier._active == {}
        assert "broke" in caplog.text


def test_only_a_loopback_server_lets_webhooks_stay_local() -> None:
    assert guard_of(Settings()).may_be_local
    assert not guard_of(Settings(host="0.0.0.0", insecure_no_auth=True)).may_be_local
    assert guard_of(Settings(webhook_allow_private=True)).may_be_private


def test_secrets_of_the_url_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.subscribe("s", webhook(url="https://worker.example/hook?secret=abc"))
    world.create("events/a", "1")
    delivery = world.delivery()
    courier = Courier(FakeDesk(world), KEYS, Settings())
    assert isinstance(delivery, Delivery)
    courier._failed(delivery, "no answer")
    assert "no answer" in caplog.text
    assert "secret" not in caplog.text
