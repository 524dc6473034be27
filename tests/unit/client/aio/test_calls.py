import itertools

import pytest

from millstream.client.aio.calls import Caller
from millstream.client.aio.transport import Transport
from millstream.client.core import requests
from millstream.client.errors import (
    BadOption,
    ClientError,
    NetworkFailed,
    NotFound,
    RateLimited,
    Unavailable,
)
from millstream.client.hooks import Call, Hooks
from millstream.client.options import Retry
from tests.support.scripted import Reply, Script, replies, scripted

pytestmark = pytest.mark.anyio
FAST = Retry(max_retries=3, initial_delay_s=0.001, max_delay_s=0.001)
PROBLEM = {"content-type": "application/problem+json"}
OVERLOADED = Reply(503, PROBLEM, b'{"code":"overloaded"}')


async def statuses(
    script: Script, method: str, *, unsafe: bool = False
) -> tuple[int, type[ClientError] | None]:
    """Run one request; return how often it was sent and what it ended with."""
    with scripted(script) as server:
        url = server.url + "/a"
        request = {
            "append": requests.append(url, "t/x", b"x"),
            "read": requests.read(url, "-1"),
            "delete": requests.delete(url),
        }[method]
        transport = Transport()
        try:
            await Caller(transport, retry=FAST).run(request, retry_unsafe=unsafe)
            ended = None
        except ClientError as error:
            ended = type(error)
        await transport.close()
        return len(server.asked), ended


@pytest.mark.parametrize("failure", [Reply(500), Reply(503), Reply(429), Reply(cut=True)])
async def test_a_read_is_tried_again_until_it_works(failure: Reply) -> None:
    assert await statuses(replies(failure, failure, Reply(200)), "read") == (3, None)


async def test_trying_ends_with_the_last_error_when_the_count_is_used_up() -> None:
    assert await statuses(replies(Reply(500)), "read") == (4, Unavailable)
    assert await statuses(replies(Reply(429)), "read") == (4, RateLimited)


async def test_what_will_fail_again_is_not_tried_again() -> None:
    assert await statuses(replies(Reply(404)), "read") == (1, NotFound)


@pytest.mark.parametrize("failure,kind", [(Reply(500), Unavailable), (Reply(503), Unavailable)])
async def test_an_append_that_may_have_happened_is_not_repeated(
    failure: Reply, kind: type[ClientError]
) -> None:
    assert await statuses(replies(failure, Reply(204)), "append") == (1, kind)


async def test_an_append_whose_answer_was_lost_is_repeated_only_on_request() -> None:
    script = (Reply(cut=True), Reply(204))
    assert await statuses(replies(*script), "append") == (1, NetworkFailed)
    assert await statuses(replies(*script), "append", unsafe=True) == (2, None)


@pytest.mark.parametrize("refused", [Reply(429), OVERLOADED])
async def test_an_append_that_was_certainly_not_taken_is_repeated(refused: Reply) -> None:
    assert await statuses(replies(refused, Reply(204)), "append") == (2, None)


async def test_a_delete_whose_answer_was_lost_is_done_and_a_first_404_is_an_error() -> None:
    assert await statuses(replies(Reply(cut=True), Reply(404)), "delete") == (2, None)
    assert await statuses(replies(Reply(404)), "delete") == (1, NotFound)


async def test_callables_are_asked_before_every_try_also_async_ones() -> None:
    numbers = itertools.count(1)

    async def token() -> str:
        return f"t{next(numbers)}"

    with scripted(replies(Reply(500), Reply(500), Reply(200))) as server:
        transport = Transport()
        caller = Caller(
            transport, headers={"Authorization": token}, params={"p": lambda: "q"}, retry=FAST
        )
        await caller.run(requests.read(server.url + "/a", "-1"))
        await transport.close()
    assert [asked.headers["authorization"] for asked in server.asked] == ["t1", "t2", "t3"]
    assert [asked.query for asked in server.asked] == [{"offset": "-1", "p": "q"}] * 3


async def test_a_narrowed_caller_adds_to_what_the_client_sends_and_wins() -> None:
    wide = Caller(Transport(), headers={"X-A": "1", "X-B": "1"}, params={"p": "1"})
    request = await wide.narrowed({"x-b": "2"}, {"q": "2"}).prepared(requests.head("http://h.test"))
    assert request.headers == {"X-A": "1", "x-b": "2"}
    assert request.query == {"p": "1", "q": "2"}


@pytest.mark.parametrize("value", ["s3cret\r\nX-Evil: 1", "s3cret\0"])
async def test_a_header_value_that_would_break_the_request_is_refused_unseen(value: str) -> None:
    caller = Caller(Transport(), headers={"X-Token": value})
    with pytest.raises(BadOption, match="X-Token") as caught:
        await caller.prepared(requests.head("http://h.test"))
    assert "s3cret" not in str(caught.value)


async def test_a_callable_that_gives_no_text_is_refused() -> None:
    caller = Caller(Transport(), params={"p": lambda: 7})  # type: ignore[dict-item,return-value]
    with pytest.raises(BadOption, match="parameter p"):
        await caller.prepared(requests.head("http://h.test"))


class Noted(Hooks):
    def __init__(self) -> None:
        self.began: list[Call] = []
        self.ended: list[tuple[Call, int | None, type[ClientError] | None]] = []
        self.retried: list[Call] = []

    def on_request(self, call: Call) -> None:
        self.began.append(call)

    def on_response(
        self, call: Call, status: int | None, seconds: float, error: ClientError | None
    ) -> None:
        self.ended.append((call, status, type(error) if error else None))

    def on_retry(self, call: Call, error: ClientError, delay_s: float) -> None:
        self.retried.append(call)


async def test_hooks_see_every_try_begin_and_end_once_as_the_same_call() -> None:
    hooks = Noted()
    with scripted(replies(Reply(cut=True), Reply(500), Reply(200))) as server:
        transport = Transport()
        caller = Caller(transport, retry=FAST, hooks=hooks, params={"token": "s3cret"})
        await caller.run(requests.read(server.url + "/a", "-1"))
        await transport.close()
    assert [call for call, _, _ in hooks.ended] == hooks.began
    assert hooks.retried == hooks.began[:2]
    assert [call.attempt for call in hooks.began] == [1, 2, 3]
    assert [(status, error) for _, status, error in hooks.ended] == [
        (None, NetworkFailed),
        (500, Unavailable),
        (200, None),
    ]
    assert hooks.began[0].url == server.url + "/a"


async def test_an_opened_answer_is_given_if_it_is_one_and_raised_if_it_is_refused() -> None:
    with scripted(replies(Reply(200, {}, b"abc"), Reply(404))) as server:
        transport = Transport()
        caller = Caller(transport)
        streaming = await caller.open(requests.read(server.url + "/a", "-1"))
        assert (await streaming.answer()).body == b"abc"
        streaming.close()
        with pytest.raises(NotFound):
            await caller.open(requests.read(server.url + "/a", "-1"))
        await transport.close()
