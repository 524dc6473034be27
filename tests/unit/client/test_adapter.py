import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from millstream.client import Retry
from millstream.client.adapter import FEATURES, Adapter
from tests.support.scripted import Asked, Reply, Scripted, scripted

pytestmark = pytest.mark.anyio

JSON = "application/json"


class Server:
    """A toy server that takes everything; tests change single answers."""

    def __init__(self) -> None:
        self.special: dict[str, Reply] = {}

    def __call__(self, asked: Asked) -> Reply:
        if asked.method in self.special:
            return self.special[asked.method]
        tail = {"stream-next-offset": "5", "content-type": JSON}
        if asked.method == "POST" and "producer-seq" in asked.headers:
            stamp = {name: asked.headers[name] for name in ("producer-epoch", "producer-seq")}
            return Reply(200, {**tail, **stamp})
        status = {"PUT": 201, "POST": 204, "DELETE": 204}.get(asked.method, 200)
        body = b"[1]" if asked.method == "GET" else b""
        return Reply(status, {**tail, "stream-up-to-date": "true"}, body)


@pytest.fixture
async def session() -> AsyncIterator[tuple[Callable[..., Any], Scripted, Server]]:
    server = Server()
    with scripted(server) as state:
        async with Adapter() as adapter:

            async def do(kind: str, **fields: Any) -> dict[str, Any]:
                return await adapter.answer(json.dumps({"type": kind, **fields}).encode())

            await do("init", serverUrl=state.url)
            yield do, state, server


Session = tuple[Callable[..., Any], Scripted, Server]


async def test_init_declares_all_nine_features() -> None:
    async with Adapter() as adapter:
        result = await adapter.answer(b'{"type":"init","serverUrl":"http://127.0.0.1:9"}')
    assert result["success"]
    assert result["features"] == dict.fromkeys(FEATURES, True)
    assert len(FEATURES) == 9


async def test_nothing_works_before_init_and_what_is_unknown_is_said_so() -> None:
    async with Adapter() as adapter:
        early = await adapter.answer(b'{"type":"head","path":"/s"}')
        unknown = await adapter.answer(b'{"type":"dance"}')
    assert (early["success"], early["commandType"]) == (False, "head")
    assert unknown["errorCode"] == "NOT_SUPPORTED"


async def test_create_tells_a_new_stream_from_an_old_one(session: Session) -> None:
    do, state, server = session
    assert (await do("create", path="/s", contentType=JSON, data="{}"))["status"] == 201
    assert state.asked[0].body == b"[{}]"
    server.special["PUT"] = Reply(200, {"stream-next-offset": "5", "content-type": JSON})
    assert (await do("create", path="/s", contentType=JSON))["status"] == 200


async def test_an_append_to_a_json_stream_is_one_message_and_reports_200(session: Session) -> None:
    do, state, _ = session
    await do("connect", path="/s")
    result = await do("append", path="/s", data="[1,2]", seq=4)
    assert (result["status"], result["offset"]) == (200, "5")
    assert state.asked[-1].body == b"[[1,2]]"
    assert state.asked[-1].headers["stream-seq"] == "4"


async def test_binary_data_is_decoded(session: Session) -> None:
    do, state, _ = session
    await do("append", path="/s", data="AP8=", binary=True)
    assert state.asked[-1].body == b"\x00\xff"


async def test_dynamic_values_count_commands_until_they_are_cleared(session: Session) -> None:
    do, state, _ = session
    await do("set-dynamic-header", name="X-N", valueType="counter")
    await do("set-dynamic-header", name="X-T", valueType="token", initialValue="t")
    await do("set-dynamic-param", name="at", valueType="timestamp")
    first = await do("append", path="/s", data="a")
    second = await do("read", path="/s")
    assert first["headersSent"] == {"X-N": "1", "X-T": "t"}
    assert second["headersSent"]["X-N"] == "2"
    assert state.asked[-1].headers["x-n"] == "2"
    assert state.asked[-1].query["at"] == second["paramsSent"]["at"]
    await do("clear-dynamic")
    assert "headersSent" not in await do("append", path="/s", data="a")


async def test_head_delete_and_close_report_what_the_suite_looks_at(session: Session) -> None:
    do, state, _ = session
    head = await do("head", path="/s")
    assert (head["contentType"], head["streamClosed"]) == (JSON, False)
    assert (await do("delete", path="/s"))["status"] == 200
    closed = await do("close", path="/s", data="x", contentType="text/plain")
    assert closed["finalOffset"] == "5"
    assert "status" not in closed
    assert state.asked[-1].headers["stream-closed"] == "true"


async def test_a_producer_goes_on_from_one_command_to_the_next(session: Session) -> None:
    do, _, _ = session
    await do("create", path="/s", contentType=JSON)
    facts = {"path": "/s", "producerId": "p", "epoch": 1, "autoClaim": False}
    assert [(await do("idempotent-append", data="1", **facts))["producerSeq"] for _ in "ab"] == [
        0,
        1,
    ]
    await do("idempotent-detach", path="/s", producerId="p", epoch=1)
    assert (await do("idempotent-append", data="1", **facts))["producerSeq"] == 0


async def test_a_batch_has_a_producer_of_its_own(session: Session) -> None:
    do, state, _ = session
    await do("create", path="/s", contentType=JSON)
    facts = {"path": "/s", "producerId": "p", "epoch": 0, "autoClaim": False}
    for _ in "ab":
        assert (await do("idempotent-append-batch", items=["1", "2"], **facts))["status"] == 200
    posts = [asked for asked in state.asked if asked.method == "POST"]
    assert [(post.headers["producer-seq"], post.body) for post in posts] == [("0", b"[1,2]")] * 2


async def test_overlapping_batches_are_one_message_each(session: Session) -> None:
    do, state, _ = session
    await do("create", path="/s", contentType=JSON)
    facts = {"path": "/s", "producerId": "p", "epoch": 0, "autoClaim": False, "maxInFlight": 3}
    await do("idempotent-append-batch", items=["1", "2", "3"], **facts)
    bodies = [asked.body for asked in state.asked if asked.method == "POST"]
    assert sorted(bodies) == [b"[1]", b"[2]", b"[3]"]


async def test_a_producer_closes_the_stream_once(session: Session) -> None:
    do, state, _ = session
    await do("create", path="/s", contentType=JSON)
    facts = {"path": "/s", "producerId": "p", "epoch": 0, "autoClaim": False}
    first = await do("idempotent-close", data="9", **facts)
    again = await do("idempotent-close", data="9", **facts)
    assert first["finalOffset"] == again["finalOffset"] == "5"
    assert len([asked for asked in state.asked if asked.method == "POST"]) == 1


@pytest.mark.parametrize(
    "target, word",
    [
        ({"target": "retry-options", "maxRetries": -1}, "maxRetries"),
        ({"target": "retry-options", "initialDelayMs": 0}, "initialDelayMs"),
        ({"target": "retry-options", "initialDelayMs": 9, "maxDelayMs": 8}, "maxDelayMs"),
        ({"target": "retry-options", "multiplier": 0.5}, "multiplier"),
        ({"target": "idempotent-producer", "epoch": -1}, "epoch"),
        ({"target": "idempotent-producer", "maxBatchBytes": 0}, "maxBatchBytes"),
        ({"target": "idempotent-producer", "maxBatchItems": 0}, "maxBatchItems"),
    ],
)
async def test_options_are_refused_by_the_name_the_suite_knows(
    session: Session, target: dict[str, Any], word: str
) -> None:
    do, _, _ = session
    result = await do("validate", target=target)
    assert result["errorCode"] == "INVALID_ARGUMENT"
    assert word in result["message"]


async def test_good_options_are_accepted(session: Session) -> None:
    do, _, _ = session
    for target in ("retry-options", "idempotent-producer"):
        assert (await do("validate", target={"target": target}))["success"]


async def test_a_benchmark_says_how_long_it_took(session: Session) -> None:
    do, _, _ = session
    operation = {"op": "append", "path": "/s", "size": 3}
    result = await do("benchmark", iterationId="i-1", operation=operation)
    assert result["iterationId"] == "i-1"
    assert int(result["durationNs"]) > 0


async def test_retries_end_after_their_number_with_the_servers_answer(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    do, state, server = session
    quick = Retry(max_retries=3, initial_delay_s=0.001, max_delay_s=0.001)
    monkeypatch.setattr("millstream.client.adapter.RETRY", quick)
    await do("init", serverUrl=state.url)
    server.special["POST"] = Reply(503, {"retry-after": "0"})
    result = await do("append", path="/s", data="a")
    assert (result["success"], result["status"]) == (False, 503)
    assert len([asked for asked in state.asked if asked.method == "POST"]) == 4


async def test_of_a_batch_with_a_bad_item_the_good_ones_are_sent(session: Session) -> None:
    do, state, _ = session
    await do("create", path="/s", contentType=JSON)
    facts = {"path": "/s", "producerId": "p", "epoch": 0, "autoClaim": False}
    result = await do("idempotent-append-batch", items=["1", "{", "3"], **facts)
    assert (result["success"], result["errorCode"]) == (False, "PARSE_ERROR")
    assert [asked.body for asked in state.asked if asked.method == "POST"] == [b"[1,3]"]
