import asyncio
import contextlib
import itertools
import threading
from collections.abc import AsyncIterator

import pytest

from millstream.client.aio.calls import Caller
from millstream.client.aio.reader import Reader
from millstream.client.aio.transport import Transport
from millstream.client.core.reading import Reading, Want
from millstream.client.core.requests import Live
from millstream.client.errors import (
    BadOption,
    ClientClosed,
    NotFound,
    ParseError,
    Unavailable,
)
from millstream.client.options import Retry
from tests.support.scripted import Asked, Reply, Script, Scripted, replies, scripted

pytestmark = pytest.mark.anyio
FAST = Retry(max_retries=2, initial_delay_s=0.001, max_delay_s=0.001)
SSE = {"content-type": "text/event-stream"}


def page(offset: str, body: bytes, kind: str = "text/plain", *, up: bool = True) -> Reply:
    headers = {"content-type": kind, "stream-next-offset": offset}
    if up:
        headers["stream-up-to-date"] = "true"
    return Reply(200, headers, body)


def event(text: str, offset: str, more: str = "") -> bytes:
    control = f'event: control\ndata:{{"streamNextOffset":"{offset}"{more}}}\n\n'
    return (f"event: data\ndata:{text}\n\n{control}" if text else control).encode()


@contextlib.asynccontextmanager
async def reading(
    script: Script, want: Want = Want.CATCH_UP, offset: str = "-1", with_empty: bool = False
) -> AsyncIterator[tuple[Reader, Scripted]]:
    with scripted(script) as server:
        transport = Transport()
        state = Reading(server.url + "/a", offset, want)
        async with Reader(Caller(transport, retry=FAST), state, with_empty=with_empty) as reader:
            yield reader, server
        await transport.close()


async def test_pages_come_as_batches_until_the_tail() -> None:
    script = replies(page("0_2", b"ab", up=False), page("0_3", b"c"))
    async with reading(script) as (reader, server):
        found = [(batch.data, batch.offset) async for batch in reader]
        assert found == [(b"ab", "0_2"), (b"c", "0_3")]
        assert (reader.offset, reader.is_up_to_date, reader.status) == ("0_3", True, 200)
        assert await reader.next_batch() is None
    assert [asked.query["offset"] for asked in server.asked] == ["-1", "0_2"]


async def test_nothing_is_asked_for_before_it_is_wanted() -> None:
    script = replies(page("0_2", b"ab", up=False), page("0_3", b"c"))
    async with reading(script) as (reader, server):
        assert server.asked == []
        await reader.next_batch()
        assert len(server.asked) == 1


async def test_everything_can_be_collected_as_bytes_text_or_values() -> None:
    json = "application/json"
    script = replies(page("0_2", b"[1,2]", json, up=False), page("0_3", b"[3]", json))
    async with reading(script) as (reader, _):
        assert await reader.bytes() == b"[1,2,3]"
    script = replies(page("0_2", b"[1,2]", json, up=False), page("0_3", b"[3]", json))
    async with reading(script) as (reader, _):
        assert await reader.json() == [1, 2, 3]
    async with reading(replies(page("0_1", "ü".encode()))) as (reader, _):
        assert await reader.text() == "ü"


async def test_a_character_cut_by_a_page_comes_whole_and_half_a_one_is_replaced() -> None:
    script = replies(page("0_1", b"a\xc3", up=False), page("0_2", b"\xbcb\xc3"))
    async with reading(script) as (reader, _):
        assert [text async for text in reader.texts()] == ["a", "üb", "\ufffd"]


async def test_the_offset_moves_with_the_last_item_of_a_batch() -> None:
    async with reading(replies(page("0_2", b"[1,2]", "application/json"))) as (reader, _):
        seen = [(item, reader.offset) async for item in reader.items()]
    assert seen == [(1, "-1"), (2, "0_2")]


async def test_leaving_items_and_coming_back_loses_and_repeats_none() -> None:
    async with reading(replies(page("0_3", b"[1,2,3]", "application/json"))) as (reader, _):
        async for item in reader.items():
            assert item == 1
            break
        with pytest.raises(BadOption, match="items"):
            await reader.next_batch()
        assert [item async for item in reader.items()] == [2, 3]


async def test_batches_without_data_are_given_only_on_request() -> None:
    async with reading(replies(page("0_0", b""))) as (reader, _):
        assert [batch async for batch in reader] == []
        assert reader.offset == "0_0"
    async with reading(replies(page("0_0", b"")), with_empty=True) as (reader, _):
        assert [batch.is_empty async for batch in reader] == [True]


async def test_a_damaged_body_is_an_error_each_time_and_a_new_reader_starts_clean() -> None:
    json = "application/json"
    script = replies(page("0_2", b"[1,", json), page("0_2", b"[1]", json))
    async with reading(script) as (reader, server):
        for _ in range(2):
            with pytest.raises(ParseError):
                await reader.next_batch()
        assert reader.offset == "-1"
        again = Reader(reader._caller, Reading(server.url + "/a", reader.offset, Want.CATCH_UP))
        assert await again.json() == [1]


async def test_failures_that_pass_are_waited_out_and_data_starts_the_count_anew() -> None:
    bad = Reply(500)
    script = replies(bad, bad, page("0_1", b"a", up=False), bad, bad, page("0_2", b"b"))
    async with reading(script) as (reader, _):
        assert await reader.bytes() == b"ab"


async def test_failures_that_stay_are_raised() -> None:
    async with reading(replies(Reply(500))) as (reader, server):
        with pytest.raises(Unavailable):
            await reader.bytes()
        assert len(server.asked) == 3
    async with reading(replies(Reply(404))) as (reader, _):
        with pytest.raises(NotFound):
            await reader.bytes()


async def test_events_resume_behind_the_last_position_until_closure() -> None:
    first = event("ab", "0_2") + b"event: data\ndata:cd\n\n"
    last = event("cd", "0_4", ',"streamClosed":true')
    script = replies(page("0_0", b""), Reply(200, SSE, first), Reply(200, SSE, last))
    async with reading(script, Want.SSE) as (reader, server):
        assert [batch.data async for batch in reader] == [b"ab", b"cd"]
        assert reader.is_closed
    assert [asked.query.get("offset") for asked in server.asked] == ["-1", "0_0", "0_2"]


async def test_what_came_before_a_broken_event_is_handed_out_before_the_error() -> None:
    events = event("ab", "0_2") + b"event: control\ndata:{\n\n"
    async with reading(replies(page("0_0", b""), Reply(200, SSE, events)), Want.SSE) as (reader, _):
        batch = await reader.next_batch()
        assert batch is not None
        assert batch.data == b"ab"
        with pytest.raises(ParseError):
            await reader.next_batch()
        assert reader.offset == "0_2"


async def test_sse_that_is_cut_short_three_times_becomes_long_poll() -> None:
    def script(asked: Asked) -> Reply:
        if asked.query.get("live") == "sse":
            return Reply(200, SSE, event("", "0_1"))
        if asked.query.get("live") == "long-poll":
            headers = {"stream-next-offset": "0_2", "stream-closed": "true"}
            return Reply(200, {"content-type": "text/plain", **headers}, b"b")
        return page("0_1", b"a")

    async with reading(script, Want.LIVE) as (reader, server):
        assert [batch.data async for batch in reader] == [b"a", b"b"]
        assert reader.live is Live.LONG_POLL
    ways = [asked.query.get("live") for asked in server.asked]
    assert ways == [None, "sse", "sse", "sse", "long-poll"]


async def test_from_now_on_over_events_the_content_type_is_asked_for_first() -> None:
    def script(asked: Asked) -> Reply:
        if asked.method == "HEAD":
            return Reply(200, {"content-type": "application/json", "stream-next-offset": "0_1"})
        return Reply(200, SSE, event("[1]", "0_2", ',"streamClosed":true'))

    async with reading(script, Want.SSE, "now") as (reader, server):
        assert [item async for item in reader.items()] == [1]
        assert reader.content_type == "application/json"
    assert [asked.method for asked in server.asked] == ["HEAD", "GET"]


async def test_a_closed_reader_says_so_and_may_be_closed_again() -> None:
    async with reading(replies(page("0_1", b"a"))) as (reader, server):
        await reader.close()
        await reader.close()
        with pytest.raises(ClientClosed):
            await reader.next_batch()
        assert server.asked == []


async def test_a_cancelled_call_leaves_no_connection_and_no_task_and_can_be_repeated() -> None:
    stuck = asyncio.Event()
    loop = asyncio.get_running_loop()

    release = threading.Event()
    tries = itertools.count()

    def script(asked: Asked) -> Reply:
        if next(tries) == 0:
            loop.call_soon_threadsafe(stuck.set)
            release.wait(20)
            return Reply(cut=True)
        return page("0_1", b"a")

    async with reading(script) as (reader, _):
        before = asyncio.all_tasks()
        waiting = asyncio.ensure_future(reader.next_batch())
        await stuck.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert asyncio.all_tasks() == before
        assert reader._streaming is None
        release.set()
        assert await reader.bytes() == b"a"
