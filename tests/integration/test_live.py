"""Readers that wait: woken once, in order, at their own pace, and let go when it is time."""

import asyncio
import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from millstream.testing.process import ServerProcess
from tests.support.client import JSON, ROOT, TEXT, Answer, Client, connect, eventually
from tests.support.server import Servers

CLOSE = {"Stream-Closed": "true"}
MEGABYTE = 1_000_000


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with Servers(tmp_path_factory.mktemp("live")) as started:
        server = started.start("--sse-ms", "1500", "--long-poll-ms", "1000")
        yield Client(server.port)
        assert "Traceback" not in server.output()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A stream name that no other test uses."""
    return "t" + str(abs(hash(request.node.nodeid)))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as executor:
        yield executor


def waiting(client: Client, name: str, pool: ThreadPoolExecutor, query: str) -> Future[Answer]:
    """Start a long-poll in the background; on return the server has it."""
    before = client.metric("millstream_live_readers")
    poll = pool.submit(client.get, name, query)
    eventually(lambda: client.metric("millstream_live_readers") > before)
    return poll


class TestLongPoll:
    def test_an_append_ends_the_wait(
        self, client: Client, name: str, pool: ThreadPoolExecutor
    ) -> None:
        client.put(name, b"old", TEXT)
        poll = waiting(client, name, pool, "live=long-poll&offset=now")
        tail = client.post(name, b"new", TEXT).offset
        answer = poll.result()
        assert (answer.status, answer.body, answer.offset) == (200, b"new", tail)
        assert answer.headers["stream-up-to-date"] == "true"
        assert answer.headers["stream-cursor"].isdigit()

    def test_nothing_in_time_is_204(self, client: Client, name: str) -> None:
        tail = client.put(name, b"old", TEXT).offset
        answer = client.get(name, "live=long-poll&offset=now")
        assert (answer.status, answer.offset, answer.body) == (204, tail, b"")
        assert answer.headers["stream-up-to-date"] == "true"
        assert answer.headers["stream-cursor"].isdigit()

    def test_a_close_ends_the_wait(
        self, client: Client, name: str, pool: ThreadPoolExecutor
    ) -> None:
        client.put(name, headers=TEXT)
        poll = waiting(client, name, pool, "live=long-poll&offset=-1")
        client.post(name, b"", CLOSE)
        answer = poll.result()
        assert (answer.status, answer.headers["stream-closed"]) == (204, "true")
        again = client.get(name, "live=long-poll&offset=now")
        assert (again.status, again.headers["stream-closed"]) == (204, "true")

    def test_last_messages_come_together_with_the_close(
        self, client: Client, name: str, pool: ThreadPoolExecutor
    ) -> None:
        client.put(name, headers=TEXT)
        poll = waiting(client, name, pool, "live=long-poll&offset=-1")
        client.post(name, b"last", {**TEXT, **CLOSE})
        answer = poll.result()
        assert (answer.status, answer.body) == (200, b"last")
        assert answer.headers["stream-closed"] == "true"

    @pytest.mark.parametrize("has_fork, status", [(False, 404), (True, 410)])
    def test_a_deletion_ends_the_wait(
        self, client: Client, name: str, pool: ThreadPoolExecutor, has_fork: bool, status: int
    ) -> None:
        client.put(name, headers=TEXT)
        if has_fork:
            client.put(name + "f", headers={"Stream-Forked-From": ROOT + name})
        poll = waiting(client, name, pool, "live=long-poll&offset=-1")
        client.delete(name)
        assert poll.result().status == status

    def test_a_source_does_not_wake_the_readers_of_its_fork(
        self, client: Client, name: str, pool: ThreadPoolExecutor
    ) -> None:
        client.put(name, headers=TEXT)
        client.put(name + "f", headers={"Stream-Forked-From": ROOT + name})
        poll = waiting(client, name + "f", pool, "live=long-poll&offset=now")
        client.post(name, b"x", TEXT)
        assert poll.result().status == 204

    @pytest.mark.parametrize("live", ["long-poll", "sse"])
    def test_an_offset_is_needed(self, client: Client, name: str, live: str) -> None:
        client.put(name, headers=TEXT)
        assert client.get(name, f"live={live}").status == 400
        assert client.get(name + "none", f"live={live}&offset=now").status == 404

    def test_a_cursor_is_always_past_the_one_that_was_seen(self, client: Client, name: str) -> None:
        client.put(name, b"x", TEXT)
        now = int(client.get(name, "live=long-poll&offset=-1").headers["stream-cursor"])
        for seen in (now, now + 1, now + 10**6, 10**15 - 1):
            page = client.get(name, f"live=long-poll&offset=-1&cursor={seen}")
            assert seen < int(page.headers["stream-cursor"]) <= seen + 180
        for strange in ("", "0", "-5", "abc", "9" * 300):
            page = client.get(name, f"live=long-poll&offset=-1&cursor={strange}")
            assert int(page.headers["stream-cursor"]) - now in (0, 1)


class TestSse:
    def test_every_append_arrives_once_and_in_order(self, client: Client, name: str) -> None:
        client.put(name, headers=JSON)
        with client.follow(name) as live:
            live.expect("control")
            with ThreadPoolExecutor(4) as writers:
                for _ in writers.map(lambda n: client.post(name, b"%d" % n, JSON), range(60)):
                    pass
            found: list[int] = []
            control: dict[str, object] = {}
            while len(found) < 60:
                found += live.expect("data").json
                control = live.expect("control").json
            assert found == client.get(name).json
            assert control["streamNextOffset"] == client.head(name).offset
            assert control["upToDate"] is True

    @pytest.mark.parametrize("delay_ms", range(0, 100, 12))
    def test_the_last_data_comes_before_the_closing_control(
        self, client: Client, name: str, delay_ms: int
    ) -> None:
        client.put(name, headers=TEXT)
        with client.follow(name) as live:
            assert live.expect("control").json["upToDate"] is True
            time.sleep(delay_ms / 1000)
            client.post(name, b"last", {**TEXT, **CLOSE})
            assert live.expect("data").text == "last"
            control = live.expect("control").json
            assert control["streamClosed"] is True
            assert "streamCursor" not in control
            assert live.next() is None

    def test_an_append_and_then_a_close_come_in_this_order(self, client: Client, name: str) -> None:
        client.put(name, headers=TEXT)
        with client.follow(name) as live:
            live.expect("control")
            client.post(name, b"last", TEXT)
            client.post(name, b"", CLOSE)
            kinds = [(event.kind, "streamClosed" in event.text) for event in live]
        assert kinds[0] == ("data", False)
        assert kinds[-1] == ("control", True)
        assert [kind for kind, is_closed in kinds if is_closed] == ["control"]

    def test_bytes_travel_as_base64(self, client: Client, name: str) -> None:
        client.put(name, b"\xff\x00\n", {"Content-Type": "application/octet-stream"})
        with client.follow(name) as live:
            assert live.headers["stream-sse-data-encoding"] == "base64"
            assert live.expect("data").text == "/wAK"
            assert live.expect("control").json["upToDate"] is True

    def test_it_ends_properly_after_its_time(self, client: Client, name: str) -> None:
        client.put(name, b"x", TEXT)
        began = time.monotonic()
        with client.follow(name) as live:
            kinds = [event.kind for event in live]
        assert kinds == ["data", "control"]
        assert 1.0 < time.monotonic() - began < 5.0

    @pytest.mark.parametrize("way", ["delete", "delete a source", "expire"])
    def test_it_ends_with_the_stream(self, client: Client, name: str, way: str) -> None:
        client.put(name, b"x", {**TEXT, **({"Stream-TTL": "1"} if way == "expire" else {})})
        if way == "delete a source":
            client.put(name + "f", headers={"Stream-Forked-From": ROOT + name})
        with client.follow(name) as live:
            live.expect("data")
            live.expect("control")
            if way != "expire":
                began = time.monotonic()
                assert client.delete(name).status == 204
                assert live.next() is None
                assert time.monotonic() - began < 1.0
            else:
                assert live.next() is None
                assert client.head(name).status == 404

    def test_a_reader_that_leaves_is_forgotten(self, client: Client, name: str) -> None:
        client.put(name, headers=TEXT)
        eventually(lambda: client.metric("millstream_live_readers") == 0)
        with client.follow(name), client.follow(name):
            assert client.metric("millstream_live_readers") == 2
        eventually(lambda: client.metric("millstream_live_readers") == 0, 1.0)


def memory_bytes(server: ServerProcess) -> int:
    pages = int(Path(f"/proc/{server.pid}/statm").read_text().split()[1])
    return pages * 4096


def test_slow_readers_delay_nobody_and_cost_no_memory(servers: Servers) -> None:
    flags = ("--hot-bytes-max", str(MEGABYTE), "--write-stall-ms", "60000")
    server = servers.start(*flags)
    client = Client(server.port)
    client.put("s", headers=TEXT)

    def write(number: int) -> None:
        client.post("s", b"%02d" % number + b"x" * MEGABYTE, TEXT)

    # What lies on disk already is read anew for each reader, and shared by none.
    for number in range(15):
        write(number)
    line = f"GET {ROOT}s?live=sse&offset=-1 HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    before = memory_bytes(server)
    with contextlib.ExitStack() as stack:
        slow = []
        for _ in range(20):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(20)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(line)
            slow.append(connection)
        fast = stack.enter_context(client.follow("s"))
        found = ""
        while "14x" not in found:
            found = re.sub("x+", "x", found + fast.expect("data").text)
            fast.expect("control")
        for number in range(15, 25):
            began = time.monotonic()
            write(number)
            assert fast.expect("data").text.startswith(f"{number}x")
            fast.expect("control")
            assert time.monotonic() - began < 5.0
        # 20 readers with 25 MB each unread would be 500 MB.
        assert memory_bytes(server) - before < 150 * MEGABYTE
        # One that wakes up at last still gets everything, in order.
        data = b""
        while b"24x\n\n" not in data:
            more = slow[0].recv(MEGABYTE)
            assert more
            data = re.sub(rb"x+", b"x", data + more)
        numbers = [int(number) for number in re.findall(rb"(\d\d)x", data)]
        assert numbers == list(range(25))


async def follow(port: int, query: str, ready: asyncio.Semaphore) -> bytes:
    """Open a live reader, say when it waits, and return all it gets until its end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {ROOT}s?{query} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    data = b""
    if "sse" in query:
        data += await reader.readuntil(b"upToDate")
    ready.release()
    data += await reader.read()
    writer.close()
    return data


def test_two_thousand_readers_are_woken_once_each(servers: Servers) -> None:
    server = servers.start("--long-poll-ms", "60000")
    client = Client(server.port)
    client.put("s", headers=TEXT)

    async def crowd() -> tuple[list[bytes], float]:
        ready = asyncio.Semaphore(0)
        queries = ["live=sse&offset=now"] * 1200 + ["live=long-poll&offset=now"] * 800
        readers = [asyncio.create_task(follow(server.port, query, ready)) for query in queries]
        for _ in queries:
            await ready.acquire()
        everyone = len(queries)
        await asyncio.to_thread(
            eventually, lambda: client.metric("millstream_live_readers") == everyone
        )
        began = time.monotonic()
        await asyncio.to_thread(client.post, "s", b"wake-up", {**TEXT, **CLOSE})
        found = await asyncio.gather(*readers)
        return found, time.monotonic() - began

    found, took_s = asyncio.run(crowd())
    assert {data.count(b"wake-up") for data in found} == {1}
    assert sum(data.count(b"streamClosed") for data in found) == 1200
    assert sum(data.count(b"stream-closed: true") for data in found) == 800
    assert took_s < 10.0
    eventually(lambda: client.metric("millstream_live_readers") == 0)
    assert "Traceback" not in server.output()


class TestGracefulStop:
    def test_live_readers_end_and_the_exit_status_is_0(
        self, servers: Servers, pool: ThreadPoolExecutor
    ) -> None:
        server = servers.start("--stop-ms", "10000")
        client = Client(server.port)
        client.put("s", b"x", TEXT)
        polls = [waiting(client, "s", pool, "live=long-poll&offset=now") for _ in range(3)]
        with client.follow("s") as live, connect(server.port) as idle:
            live.expect("data")
            live.expect("control")
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 5.0
            # A chunked answer that was cut would raise here.
            assert live.next() is None
            assert [poll.result().status for poll in polls] == [204] * 3
            assert idle.recv(100) == b""
        assert "Traceback" not in server.output()
        server.start()
        assert client.get("s").body == b"x"

    def test_appends_in_flight_are_answered_and_kept(
        self, servers: Servers, pool: ThreadPoolExecutor
    ) -> None:
        server = servers.start()
        client = Client(server.port)
        client.put("s", headers=JSON)
        taken: list[int] = []
        refused: list[int] = []
        enough = threading.Event()

        def write(writer: int) -> None:
            for number in range(writer, 10**6, 16):
                try:
                    status = client.post("s", b"%d" % number, JSON).status
                except ConnectionRefusedError:
                    return
                (taken if status == 204 else refused).append(number)
                if len(taken) > 200:
                    enough.set()
                if status != 204:
                    assert status == 503
                    return

        writers = [pool.submit(write, number) for number in range(16)]
        assert enough.wait(20)
        assert server.stop() == 0
        broken = [error for writer in writers if (error := writer.exception(20)) is not None]
        # A connection that the kernel had accepted and the server had not is reset, which a
        # client meets when it reads (reset) or already while it sends (broken pipe); no request
        # that was read stays without an answer.
        met = (ConnectionResetError, BrokenPipeError)
        assert all(isinstance(error, met) for error in broken), broken
        server.start()
        stored = client.get("s").json
        assert len(stored) == len(set(stored))
        assert set(taken) <= set(stored)
        assert not set(refused) & set(stored)
        assert len(set(stored) - set(taken)) <= len(broken)

    def test_a_request_that_never_ends_does_not_hold_up_the_stop(self, servers: Servers) -> None:
        server = servers.start("--stop-ms", "300")
        with connect(server.port) as connection:
            connection.sendall(
                b"POST /v1/stream/s HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nab"
            )
            began = time.monotonic()
            assert server.stop() == 0
            assert time.monotonic() - began < 5.0
