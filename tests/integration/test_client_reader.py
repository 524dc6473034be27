"""The client's reader against a real server: every way of reading, and what can go wrong."""

import asyncio
import threading
from collections.abc import Iterator

import pytest

from millstream.client import Call, Client, ClientError, Hooks, Retry, Stream, sync
from millstream.client.aio.stream import LiveMode
from millstream.testing.process import ServerProcess
from tests.support.server import Servers

pytestmark = pytest.mark.anyio
JSON = "application/json"
LIVE: list[LiveMode] = [True, "long-poll", "sse"]
PATIENT = Retry(max_retries=None, initial_delay_s=0.01, max_delay_s=0.1, deadline_s=60)
WAIT_S = 30.0


@pytest.fixture(scope="module")
def paging_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """One server whose pages are so small that every stream has several."""
    with Servers(tmp_path_factory.mktemp("paging")) as started:
        yield started.start("--page-bytes", "1024")


@pytest.mark.parametrize("live", [False, *LIVE])
@pytest.mark.parametrize("kind", [JSON, "text/plain", "application/octet-stream"])
async def test_a_closed_stream_is_read_whole_in_every_way(
    paging_server: ServerProcess, live: LiveMode, kind: str
) -> None:
    async with Client(paging_server.url) as client:
        stream = client.stream(f"{live}/{kind}")
        await stream.create(kind)
        texts = [f" line {n}\nü\u2028" + "x" * 90 for n in range(60)]
        for text in texts:
            await stream.append(text)
        await stream.close()
        async with stream.read(live=live) as reader:
            if kind == JSON:
                assert [item async for item in reader.items()] == texts
            else:
                assert "".join([text async for text in reader.texts()]) == "".join(texts)
            assert (reader.is_closed, reader.is_up_to_date) == (True, True)


async def follow(stream: Stream, live: LiveMode, count: int, started: asyncio.Event) -> list[int]:
    """Read until `count` values came; tells when the first did."""
    found: list[int] = []
    async with stream.read(live=live) as reader:
        async for item in reader.items():
            found.append(item)
            started.set()
            if len(found) == count:
                break
    return found


@pytest.mark.parametrize("live", LIVE)
async def test_a_live_reader_gets_what_is_appended_while_it_waits(
    shared_server: ServerProcess, live: LiveMode
) -> None:
    async with Client(shared_server.url) as client, asyncio.timeout(WAIT_S):
        stream = client.stream(f"live/{live}")
        await stream.create(JSON, body=0)
        started = asyncio.Event()
        reading = asyncio.ensure_future(follow(stream, live, 20, started))
        await started.wait()
        for number in range(1, 20):
            await stream.append(number)
        assert await reading == list(range(20))


@pytest.mark.parametrize("live", LIVE)
async def test_from_now_on_only_the_new_is_read(
    shared_server: ServerProcess, live: LiveMode
) -> None:
    async with Client(shared_server.url) as client, asyncio.timeout(WAIT_S):
        stream = client.stream(f"now/{live}")
        await stream.create(JSON, body="old")
        async with stream.read("now", live=live, with_empty=True) as reader:
            pending = asyncio.ensure_future(reader.next_batch())
            while not pending.done():
                await stream.append("new")
                await asyncio.sleep(0)
            batch = await pending
            while batch is not None and batch.is_empty:
                batch = await reader.next_batch()
            assert batch is not None
            assert set(batch.items()) == {"new"}


@pytest.mark.parametrize("live", LIVE)
async def test_a_reader_goes_on_after_the_server_was_killed(
    server: ServerProcess, live: LiveMode
) -> None:
    async with Client(server.url, retry=PATIENT) as client, asyncio.timeout(2 * WAIT_S):
        stream = client.stream("a")
        await stream.create(JSON, body=0)
        started = asyncio.Event()
        reading = asyncio.ensure_future(follow(stream, live, 30, started))
        await started.wait()
        number = 1
        for _ in range(3):
            while number % 10 or number == 0:
                await stream.append(number)
                number += 1
            await asyncio.to_thread(server.restart, kill=True)
            if number < 30:
                await stream.append(number)
                number += 1
        assert await reading == list(range(30))


class Waiting(Hooks):
    """Tells when the second read waits: a poll once it is sent, events once they are open."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.is_sse = False
        self._reads = 0

    def on_request(self, call: Call) -> None:
        self._reads += call.operation == "read"
        if self._reads == 2 and not self.is_sse:
            self.begun.set()

    def on_response(
        self, call: Call, status: int | None, seconds: float, error: ClientError | None
    ) -> None:
        if self._reads == 2 and self.is_sse:
            self.begun.set()


@pytest.mark.parametrize("live", LIVE)
async def test_cancelling_a_live_reader_leaves_no_task_and_no_connection(
    shared_server: ServerProcess, live: LiveMode
) -> None:
    hooks = Waiting()
    async with Client(shared_server.url, hooks=hooks) as client, asyncio.timeout(WAIT_S):
        stream = client.stream(f"cancelled/{live}")
        await stream.create("text/plain", body="a")
        hooks.is_sse = live != "long-poll"
        before = asyncio.all_tasks()
        reader = stream.read(live=live)
        assert await reader.next_batch() is not None
        waiting = asyncio.ensure_future(reader.next_batch())
        await hooks.begun.wait()
        assert (reader._streaming is not None) is hooks.is_sse
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert asyncio.all_tasks() == before
        session = client._transport._session
        assert session is not None
        assert session.connector is not None
        assert not session.connector._acquired
        # The reader itself is whole: it goes on where it was.
        await stream.close("b")
        assert [batch.data async for batch in reader] == [b"b"]


async def test_a_consumer_that_stalls_stops_the_socket(server: ServerProcess) -> None:
    total, size = 48, 1_000_000
    async with Client(server.url) as client, asyncio.timeout(WAIT_S):
        stream = client.stream("a")
        await stream.create("text/plain", body="first")
        async with stream.read(live="sse", with_empty=True) as reader:
            # The page, and the position that opens the events: now the connection is there.
            await reader.next_batch()
            await reader.next_batch()
            streaming = reader._streaming
            assert streaming is not None
            connection = streaming._response.connection
            assert connection is not None
            assert connection.protocol is not None
            for _ in range(total):
                await stream.append("x" * size)
            await stream.close()
            while not connection.protocol._reading_paused:  # noqa: ASYNC110 - nobody is told
                await asyncio.sleep(0)
            # However much the stream has, this process holds a few buffers of it.
            assert streaming._response.content.total_bytes < 4_000_000
            found = sum([len(batch.data) async for batch in reader])
        assert found == total * size


def test_the_blocking_reader_follows_and_ends(shared_server: ServerProcess) -> None:
    with sync.Client(shared_server.url) as client:
        stream = client.stream("blocking/live")
        stream.create(JSON, body=0)
        seen = threading.Event()
        found: list[int] = []

        def follow_it() -> None:
            with stream.read(live=True) as reader:
                for item in reader.items():
                    found.append(item)
                    seen.set()

        thread = threading.Thread(target=follow_it)
        thread.start()
        assert seen.wait(WAIT_S)
        stream.append_many([1, 2])
        stream.close(3)
        thread.join(WAIT_S)
        assert found == [0, 1, 2, 3]
