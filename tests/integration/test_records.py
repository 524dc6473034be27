"""The records dialect on a real server: each flaw of the system it comes from, by its number."""

import contextlib
import http.client
import itertools
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from millstream.testing.process import ServerProcess
from tests.support.client import Client, eventually
from tests.support.records import Record, Records
from tests.support.server import Servers

GONE = (OSError, http.client.HTTPException)
"""What a client sees of a server that is killed."""
SECRET = {"auth": "open-sesame"}
WRITERS = 8
EACH = 500


@pytest.fixture
def client(shared_server: ServerProcess) -> Client:
    return Client(shared_server.port)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A stream name that no other test uses."""
    return "r" + str(abs(hash(request.node.nodeid)))


@pytest.fixture
def records(shared_server: ServerProcess, name: str) -> Iterator[Records]:
    with Records(shared_server.port, name) as found:
        yield found


def values(pages: Iterator[list[Record]]) -> list[object]:
    return [value for page in pages for _, value in page]


def waits(client: Client, count: int = 1) -> None:
    """Return when so many readers wait at the server."""
    eventually(lambda: client.metric("millstream_live_readers") == count)


@pytest.mark.parametrize("is_killed", [False, True])
def test_d1_a_stream_goes_on_after_a_restart(server: ServerProcess, is_killed: bool) -> None:
    with Records(server.port, "a") as before:
        offsets = before.add(1, 2) + before.add(3)
        assert before.post([4], version=6).status == 200
    server.restart(kill=is_killed)
    with Records(server.port, "a") as after:
        assert [offset for offset, _ in after.read()][:3] == offsets
        assert after.version() == 6
        assert after.post([5], version=5).status == 409
        after.add(5)
        assert values(after.pages(2)) == [1, 2, 3, 4, 5]


def test_d2_no_page_skips_what_lies_inside_an_append(records: Records) -> None:
    offsets = records.add(*range(5000)) + records.add(*range(5000, 6010))
    found = [record for page in records.pages(100) for record in page]
    assert found == list(zip(offsets, range(6010), strict=True))


def test_d3_an_append_of_one_record_does_not_stop_a_reader(records: Records) -> None:
    for batch in ([0], [1], [2, 3], [4]):
        records.add(*batch)
    for limit in (1, 2, 3, 10):
        assert values(records.pages(limit)) == [0, 1, 2, 3, 4]


def test_d4_what_is_answered_is_stored_however_many_write_at_once(
    client: Client, records: Records, name: str
) -> None:
    def write(number: int) -> list[str]:
        with Records(client.port, name) as mine:
            return mine.add(number)

    with ThreadPoolExecutor(40) as pool:
        answered = {offsets[0]: n for n, offsets in enumerate(pool.map(write, range(400)))}
    found = dict(record for page in records.pages(100) for record in page)
    assert found == answered
    assert len(found) == 400


def test_d5_text_in_any_language_is_stored_and_the_next_one_too(records: Records) -> None:
    texts = ["é", "日本語", "🙂", "\u0000", "a\u2028b"]
    records.ask("POST", "", json.dumps({"records": texts}, ensure_ascii=False).encode())
    records.add("plain")
    assert values(records.pages(2)) == [*texts, "plain"]


def test_d6_the_limit_is_ten_unless_said_and_never_guessed_at(records: Records) -> None:
    records.add(*range(25))
    assert len(records.read()) == 10
    assert len(records.read(limit=10_000)) == 25
    for wrong in ("0", "abc", "-1", "10001", "", "1.0", "0x5"):
        answer = records.ask("GET", f"?offset=-&limit={wrong}")
        assert (answer.status, answer.json["field"]) == (400, "limit"), wrong


def test_d7_a_version_that_is_no_number_is_refused(records: Records) -> None:
    for wrong in ("3abc", "", "-1", "1.5", "9007199254740992"):
        answer = records.ask("POST", f"?version={wrong}", b'{"records":[1]}')
        assert (answer.status, answer.json["field"]) == (400, "version"), wrong
    assert records.read() == []
    assert records.version() == 0


def test_d7_a_lower_version_is_told_both_and_stores_nothing(records: Records) -> None:
    assert records.post([1], version=3).status == 200
    answer = records.post([2], version=2)
    assert (answer.status, answer.code) == (409, "version_fenced")
    assert (answer.json["current_version"], answer.json["provided_version"]) == (3, 2)
    assert answer.json["error"]
    assert values(records.pages(10)) == [1]


def test_d8_a_deletion_takes_exactly_its_stream(client: Client, name: str) -> None:
    names = [name, f"{name}/b", f"{name}b", f"{name}/b/c"]
    for each in names:
        with Records(client.port, each) as stream:
            stream.add(each)
    for number, each in enumerate(names):
        with Records(client.port, each) as stream:
            answer = stream.ask("DELETE")
            assert (answer.status, answer.json) == (200, {"success": True})
            assert stream.ask("DELETE").status == 404
        for other in names[number + 1 :]:
            with Records(client.port, other) as stream:
                assert values(stream.pages(10)) == [other]


def test_d9_a_reader_that_waits_gets_all_behind_its_own_offset(servers: Servers) -> None:
    server = servers.start()
    client = Client(server.port)
    with Records(server.port, "a") as writer, ThreadPoolExecutor(3) as pool:

        def wait(offset: str) -> list[Record]:
            with Records(server.port, "a") as reader:
                return reader.read(offset, 100, 30)

        early = pool.submit(wait, "")
        waits(client)
        first = writer.add("first")
        assert early.result() == [(first[0], "first")]
        # One is behind already, one at the end: both get what follows their own offset.
        second = writer.add("second")
        late = pool.submit(wait, second[0])
        waits(client)
        assert wait(first[0]) == [(second[0], "second")]
        third = writer.add("third", "fourth")
        assert late.result() == list(zip(third, ["third", "fourth"], strict=True))


def test_d9_a_reader_that_only_waits_misses_nothing(servers: Servers) -> None:
    server = servers.start()
    count = 300

    def follow() -> list[object]:
        found: list[object] = []
        offset = "-"
        with Records(server.port, "a") as reader:
            while len(found) < count:
                for record_offset, value in reader.read(offset, 7, 30):
                    offset = record_offset
                    found.append(value)
        return found

    with ThreadPoolExecutor(4) as pool, Records(server.port, "a") as writer:
        readers = [pool.submit(follow) for _ in range(4)]
        waits(Client(server.port), 4)
        for number in range(count):
            writer.add(number)
        for reader in readers:
            assert reader.result() == list(range(count))


def test_d12_everybody_who_writes_while_a_stream_is_deleted_is_answered(
    client: Client, name: str
) -> None:
    def write(number: int) -> int:
        with Records(client.port, name) as mine:
            statuses = [mine.post([number]).status for _ in range(20)]
        return statuses.count(200)

    def delete(_number: int) -> int:
        with Records(client.port, name) as mine:
            statuses = {mine.ask("DELETE").status for _ in range(20)}
        assert statuses <= {200, 404}
        return 20

    with ThreadPoolExecutor(10) as pool:
        writers = [pool.submit(write, number) for number in range(8)]
        deleters = [pool.submit(delete, number) for number in range(2)]
        assert [each.result() for each in writers + deleters] == [20] * 10


def test_d12_a_deletion_ends_those_who_wait(servers: Servers) -> None:
    server = servers.start()
    with Records(server.port, "a") as records, ThreadPoolExecutor(1) as pool:
        records.add(1)
        with Records(server.port, "a") as reader:
            waiting = pool.submit(reader.ask, "GET", "?timeout_sec=60")
            waits(Client(server.port))
            assert records.ask("DELETE").status == 200
            assert waiting.result().json == {"records": []}


@pytest.mark.parametrize("body", [b"{}", b"", b'{"records":[]}', b'{"unknown":1}'])
def test_d13_records_may_be_left_out(client: Client, body: bytes) -> None:
    with Records(client.port, f"d13-{len(body)}") as records:
        assert records.ask("POST", "", body).json == {"version": 0}
        assert records.ask("POST", "?version=4", body).json == {"version": 4}


def test_d16_a_retry_is_stored_once_and_answered_the_same(server: ServerProcess) -> None:
    batch = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}
    with Records(server.port, "a") as records:
        first = records.post([1, 2], headers=batch)
        records.add(3)
    server.restart(kill=True)
    with Records(server.port, "a") as records:
        again = records.post([1, 2], headers=batch)
        assert (again.status, again.json) == (200, first.json)
        assert values(records.pages(10)) == [1, 2, 3]


def test_d16_there_are_limits_metrics_and_a_secret(servers: Servers) -> None:
    server = servers.start("--body-bytes-max", "1000", "--records-auth", "open-sesame")
    client = Client(server.port)
    with Records(server.port, "a") as records:
        assert records.post([1]).code == "unauthorized"
        assert records.post([1], headers={"auth": "open"}).code == "unauthorized"
        assert records.post(["x" * 1000], headers=SECRET).code == "body_too_large"
    with Records(server.port, "a") as records:
        assert records.post([1, 2], headers=SECRET).status == 200
        assert client.metric("millstream_messages_total") == 2
        assert "open-sesame" not in server.output()


def test_a_stop_ends_those_who_wait_with_nothing(servers: Servers) -> None:
    server = servers.start()
    with ThreadPoolExecutor(2) as pool:
        with Records(server.port, "a") as there:
            there.add(1)
        waiting = [
            pool.submit(Records(server.port, each).ask, "GET", "?timeout_sec=60")
            for each in ("a", "missing")
        ]
        waits(Client(server.port), 2)
        assert server.stop() == 0
        assert [each.result().json for each in waiting] == [{"records": []}] * 2


def test_many_writers_and_readers_of_any_page_size_agree_on_every_record(
    servers: Servers,
) -> None:
    server = servers.start()
    sizes = itertools.cycle((1, 2, 7, 40))

    def write(writer: int) -> dict[str, object]:
        mine: dict[str, object] = {}
        left = list(range(EACH))
        with Records(server.port, "a") as records:
            while left:
                size = next(sizes)
                batch = [[writer, number] for number in left[:size]]
                left = left[size:]
                mine.update(zip(records.add(*batch), batch, strict=True))
        return mine

    def follow(limit: int) -> list[Record]:
        found: list[Record] = []
        offset = "-"
        with Records(server.port, "a") as records:
            while len(found) < WRITERS * EACH:
                page = records.read(offset, limit, 30)
                assert len(page) <= limit
                found += page
                offset = page[-1][0] if page else offset
        return found

    with ThreadPoolExecutor(WRITERS + 3) as pool:
        readers = [pool.submit(follow, limit) for limit in (1, 7, 100)]
        written: dict[str, object] = {}
        total = 0
        for mine in pool.map(write, range(WRITERS)):
            total += len(mine)
            written |= mine
        assert total == len(written) == WRITERS * EACH, "offsets are distinct"
        for reader in readers:
            assert reader.result() == sorted(written.items())
    for writer in range(WRITERS):
        of_one = [value for _, value in sorted(written.items()) if value[0] == writer]  # type: ignore[index]
        assert of_one == [[writer, number] for number in range(EACH)]


class Barrier:
    """Writers under old versions, and somebody who raises the version over and over."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.newest = 0
        self.acked: dict[str, list[int]] = {}
        self.ends: dict[int, str] = {}
        """For each version: the tail of the moment at which it was known to be raised."""
        self.has_risen = threading.Semaphore(0)
        self.is_over = threading.Event()
        self._lock = threading.Lock()
        self._numbers = itertools.count()

    def write(self, lag: int) -> None:
        """Write under a version that is ``lag`` behind, until the server is gone."""
        with contextlib.suppress(*GONE), Records(self.port, "a") as records:
            while not self.is_over.is_set():
                version, number = max(self.newest - lag, 0), next(self._numbers)
                answer = records.post([[version, number]], version=version)
                if answer.status == 503:
                    return
                assert answer.status in {200, 409}, answer
                if answer.status == 200:
                    with self._lock:
                        self.acked[answer.json["offsets"][0]] = [version, number]

    def rise(self) -> None:
        """Raise the version, and note how far the stream went then, until the server is gone."""
        client = Client(self.port)
        with contextlib.suppress(*GONE), Records(self.port, "a") as records:
            while not self.is_over.is_set():
                version = self.newest + 1
                answer = records.ask("POST", f"?version={version}")
                if answer.status == 503:
                    return
                assert answer.json == {"version": version}
                self.newest = version
                self.ends[version] = client.head("a").offset.replace("_", "")
                self.has_risen.release()

    def check(self, found: dict[str, list[int]]) -> None:
        """What was acknowledged is there; nothing of a version lies behind the end of it."""
        assert self.acked.items() <= found.items()
        in_order = [version for _, (version, _) in sorted(found.items())]
        assert in_order == sorted(in_order)
        for version, end in self.ends.items():
            assert all(below >= version for at, (below, _) in found.items() if at > end)


def test_d7_nothing_of_a_lower_version_lands_once_a_higher_one_is_acked(
    servers: Servers,
) -> None:
    server = servers.start("--snapshot-frames", "100")
    barrier = Barrier(server.port)
    for is_killed in (True, False, True):
        barrier.is_over.clear()
        with ThreadPoolExecutor(5) as pool:
            tasks = [pool.submit(barrier.write, lag) for lag in (0, 0, 1, 2)]
            tasks.append(pool.submit(barrier.rise))
            try:
                for _ in range(25):
                    assert barrier.has_risen.acquire(timeout=30)
                if is_killed:
                    server.kill()
                else:
                    server.stop()
            finally:
                barrier.is_over.set()
            for task in tasks:
                task.result()
        server.start()
        with Records(server.port, "a") as records:
            version = records.version()
            assert version >= barrier.newest
            assert records.post(["late"], version=barrier.newest - 1).status == 409
            found = {at: value for page in records.pages(1000) for at, value in page}
            barrier.check(found)
            barrier.newest = version
