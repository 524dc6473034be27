"""What Millstream adds to the protocol: If-Match, limit, at, and the listing of streams."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise
from urllib.parse import quote

import pytest

from millstream.testing.process import ServerProcess
from tests.support.client import JSON, ROOT, TEXT, Answer, Client, eventually
from tests.support.server import Servers

START = "0000000000000000_0000000000000000"


@pytest.fixture
def client(shared_server: ServerProcess) -> Client:
    return Client(shared_server.port)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A stream name that no other test uses."""
    return "t" + str(abs(hash(request.node.nodeid)))


class TestIfMatch:
    @pytest.mark.parametrize("form", ["{}", '"{}"'])
    def test_the_tail_it_expects_lets_an_append_pass(
        self, client: Client, name: str, form: str
    ) -> None:
        offset = client.put(name, headers=TEXT).offset
        for _ in range(3):
            offset = client.post(name, b"x", {**TEXT, "If-Match": form.format(offset)}).offset
        assert client.get(name).body == b"xxx"

    def test_another_tail_is_412_with_the_present_one(self, client: Client, name: str) -> None:
        client.put(name, headers=TEXT)
        tail = client.post(name, b"x", TEXT).offset
        answer = client.post(name, b"y", {**TEXT, "If-Match": START})
        assert (answer.status, answer.code) == (412, "offset_mismatch")
        assert answer.offset == answer.json["next_offset"] == tail
        assert client.get(name).body == b"x"
        assert client.post(name, b"y", {**TEXT, "If-Match": answer.offset}).status == 204

    def test_a_star_expects_only_the_stream(self, client: Client, name: str) -> None:
        assert client.post(name, b"x", {**TEXT, "If-Match": "*"}).status == 404
        client.put(name, headers=TEXT)
        assert client.post(name, b"x", {**TEXT, "If-Match": "*"}).status == 204

    @pytest.mark.parametrize(
        "value",
        ["", '""', "-1", "now", "1_1", f"{START}x", f"W/{START}", f"{START}, {START}", "**"],
    )
    def test_what_is_no_offset_is_refused(self, client: Client, name: str, value: str) -> None:
        client.put(name, headers=TEXT)
        answer = client.post(name, b"x", {**TEXT, "If-Match": value})
        assert (answer.status, answer.json["field"]) == (400, "If-Match")
        assert client.get(name).body == b""

    def test_a_close_can_be_conditional_too(self, client: Client, name: str) -> None:
        client.put(name, b"x", TEXT)
        closing = {"Stream-Closed": "true", "If-Match": START}
        assert client.post(name, b"", closing).status == 412
        assert "stream-closed" not in client.head(name).headers

    def test_a_retry_of_a_producer_is_a_duplicate_and_no_mismatch(
        self, client: Client, name: str
    ) -> None:
        client.put(name, headers=TEXT)
        batch = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0", "If-Match": START}
        first = client.post(name, b"x", {**TEXT, **batch})
        again = client.post(name, b"x", {**TEXT, **batch})
        assert (first.status, again.status) == (200, 204)
        assert again.offset == first.offset

    def test_of_many_writers_with_one_expectation_one_wins(self, client: Client, name: str) -> None:
        client.put(name, headers=JSON)
        with ThreadPoolExecutor(8) as pool:
            for turn in range(10):
                tail = client.head(name).offset

                def write(number: int, tail: str = tail) -> int:
                    return client.post(name, b"%d" % number, {**JSON, "If-Match": tail}).status

                statuses = sorted(pool.map(write, range(8)))
                assert statuses == [204] + [412] * 7, f"turn {turn}"
        assert len(client.get(name).json) == 10


class TestLimit:
    @pytest.mark.parametrize("count", [1, 2, 3, 7, 19, 20, 21, 1_000_000])
    def test_pages_of_any_count_add_up(self, client: Client, name: str, count: int) -> None:
        client.put(name, headers=JSON)
        for body in (b"[0,1,2,3,4,5,6,7,8,9]", b"10", b"[11,12,13,14,15,16,17,18]", b"19"):
            client.post(name, body, JSON)
        found: list[int] = []
        offset = "-1"
        while True:
            page = client.get(name, f"offset={offset}&limit={count}")
            values = page.json
            assert len(values) == min(count, 20 - len(found))
            found += values
            offset = page.offset
            assert ("stream-up-to-date" in page.headers) == (len(found) == 20)
            if len(found) == 20:
                break
        assert found == list(range(20))

    def test_a_long_poll_takes_a_limit(self, client: Client, name: str) -> None:
        client.put(name, b"[1,2,3]", JSON)
        page = client.get(name, "offset=-1&limit=2&live=long-poll")
        assert page.json == [1, 2]
        assert "stream-up-to-date" not in page.headers

    def test_pages_of_other_limits_have_other_etags(self, client: Client, name: str) -> None:
        client.put(name, b"[1,2,3]", JSON)
        tags = {client.get(name, f"limit={count}").headers["etag"] for count in (1, 2, 3)}
        assert len(tags) == 3

    @pytest.mark.parametrize(
        "value", ["0", "-1", "+1", "a", "1.0", "", "1000001", "9" * 5000, "1&limit=1", "%D9%A1"]
    )
    def test_what_is_no_count_is_refused(self, client: Client, name: str, value: str) -> None:
        client.put(name, b"[1]", JSON)
        answer = client.get(name, f"limit={value}")
        assert (answer.status, answer.json["field"]) == (400, "limit")


class TestAt:
    @pytest.fixture
    def times(self, client: Client, name: str) -> list[int]:
        """A stream of four messages, and their times: each some milliseconds behind the last."""
        client.put(name, headers=JSON)
        times: list[int] = []
        for number in range(4):
            eventually(lambda: not times or now_ms() > times[-1] + 5)
            times.append(int(client.post(name, b"%d" % number, JSON).offset[:16]))
        assert all(later - earlier > 2 for earlier, later in pairwise(times))
        return times

    def test_it_starts_with_the_first_message_of_that_time(
        self, client: Client, name: str, times: list[int]
    ) -> None:
        for number, time_ms in enumerate(times):
            rest = list(range(number, 4))
            for at in (time_ms, time_ms - 1, time_ms - 2):
                assert client.get(name, f"at={at}").json == rest
                offset = f"{at:016d}_0000000000000000"
                assert client.get(name, f"offset={offset}").json == rest
            assert client.get(name, f"at={time_ms + 1}").json == rest[1:]

    def test_before_the_start_is_everything_and_behind_the_end_nothing(
        self, client: Client, name: str, times: list[int]
    ) -> None:
        for at in ("0", "1", "1970-01-01T00:00:00Z", "0001-01-01T00:00:00%2B14:00"):
            assert client.get(name, f"at={at}").json == [0, 1, 2, 3]
        for at in ("9999999999999999", "9999-12-31T23:59:59.999Z", "2090-01-01T00:00:00Z"):
            page = client.get(name, f"at={at}")
            assert page.json == []
            assert page.headers["stream-up-to-date"] == "true"
            assert page.offset == client.head(name).offset

    @pytest.mark.parametrize("hours", [0, 5.5, -8, 14, -12])
    def test_a_time_may_be_in_any_zone(
        self, client: Client, name: str, times: list[int], hours: float
    ) -> None:
        zone = timezone(timedelta(hours=hours))
        moment = datetime.fromtimestamp(times[2] / 1000, UTC).astimezone(zone)
        text = moment.isoformat(timespec="milliseconds")
        assert client.get(name, "at=" + quote(text)).json == [2, 3]
        # A plus that was not encoded is taken for a plus.
        assert client.get(name, "at=" + text).json == [2, 3]
        assert client.get(name, "at=" + quote(text.replace("T", "t"))).json == [2, 3]

    def test_live_readers_start_at_a_time(
        self, client: Client, name: str, times: list[int]
    ) -> None:
        assert client.get(name, f"at={times[3]}&live=long-poll").json == [3]
        with client.follow(name, f"at={times[1]}") as live:
            assert live.expect("data").json == [1, 2, 3]

    def test_a_fork_knows_the_times_of_its_source(
        self, client: Client, name: str, times: list[int]
    ) -> None:
        anchor = client.get(name, "limit=2").offset
        fork = {"Stream-Forked-From": ROOT + name, "Stream-Fork-Offset": anchor}
        client.put(name + "f", headers=fork)
        client.post(name + "f", b'"own"', JSON)
        assert client.get(name + "f", f"at={times[0]}").json == [0, 1, "own"]
        assert client.get(name + "f", f"at={times[1]}").json == [1, "own"]
        assert client.get(name + "f", f"at={times[1] + 1}").json == ["own"]

    @pytest.mark.parametrize(
        "value",
        [
            *("", "-1", "now", "yesterday", "1.5", "2030-01-01", "2030-01-01T00:00:00", "1e9"),
            *("2030-02-30T00:00:00Z", "2030-01-01T25:00:00Z", "2030-01-01T00:00:00%2B25:00"),
            *("9" * 17, "9" * 5000, "1&at=2", "1&offset=-1", "%D9%A1%D9%A2"),
        ],
    )
    def test_what_is_no_time_is_refused(self, client: Client, name: str, value: str) -> None:
        client.put(name, b"[1]", JSON)
        answer = client.get(name, f"at={value}")
        assert (answer.status, answer.json["field"]) == (400, "at")


def now_ms() -> int:
    return int(datetime.now(UTC).timestamp() * 1000)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Client, list[str]]]:
    """A server of its own, since a listing shows all streams; and what is on it."""
    with Servers(tmp_path_factory.mktemp("listing")) as started:
        client = Client(started.start().port)
        names = ["a", "a/1", "a/2", "ab", "a-", "B", "z/\u00e9", "z/\U0001f600", "z/%2e%2e"]
        for name in names:
            client.put(quote(name), b"x", TEXT)
        yield client, sorted(names)


class TestListing:
    def listed(self, client: Client, **values: object) -> Answer:
        query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in values.items())
        return client.ask("GET", "/v1/streams" + ("?" + query if query else ""))

    def paths(self, client: Client, **values: object) -> list[str]:
        answer = self.listed(client, **values)
        assert answer.status == 200
        return [stream["path"] for stream in answer.json["streams"]]

    def test_streams_come_in_order_of_their_paths(self, shelf: tuple[Client, list[str]]) -> None:
        client, names = shelf
        assert self.paths(client) == names
        assert self.listed(client).json["next_after"] is None

    @pytest.mark.parametrize(
        "prefix", ["a", "a/", "ab", "abc", "A", "z/\u00e9", "z/%", "%61", "..", "/", "\x00", "*"]
    )
    def test_a_prefix_is_taken_letter_by_letter(
        self, shelf: tuple[Client, list[str]], prefix: str
    ) -> None:
        client, names = shelf
        assert self.paths(client, prefix=prefix) == [n for n in names if n.startswith(prefix)]

    @pytest.mark.parametrize("after", ["", "a", "a/1", "a/zzz", "B", "zzzz", "\U0010ffff", "\x00"])
    @pytest.mark.parametrize("prefix", ["", "a", "a/", "q"])
    def test_after_is_exclusive_and_need_not_exist(
        self, shelf: tuple[Client, list[str]], prefix: str, after: str
    ) -> None:
        client, names = shelf
        expected = [name for name in names if name.startswith(prefix) and name > after]
        assert self.paths(client, prefix=prefix, after=after) == expected

    @pytest.mark.parametrize("limit", [1, 2, 3, 8, 9, 1000])
    def test_pages_add_up(self, shelf: tuple[Client, list[str]], limit: int) -> None:
        client, names = shelf
        found: list[str] = []
        after: str | None = ""
        while after is not None:
            answer = self.listed(client, after=after, limit=limit)
            page = [stream["path"] for stream in answer.json["streams"]]
            assert 0 < len(page) <= limit
            found += page
            after = answer.json["next_after"]
        assert found == names

    def test_an_entry_says_what_the_stream_is(self, shelf: tuple[Client, list[str]]) -> None:
        client, _ = shelf
        entry = self.listed(client, prefix="ab").json["streams"][0]
        assert entry["next_offset"] == client.head("ab").offset
        assert (entry["messages"], entry["bytes"], entry["closed"]) == (1, 1, False)
        assert entry["content_type"] == "text/plain"

    @pytest.mark.parametrize("limit", ["0", "-1", "", "a", "1001", "9" * 5000, "0000001000999"])
    def test_what_is_no_limit_is_refused(self, shelf: tuple[Client, list[str]], limit: str) -> None:
        answer = self.listed(shelf[0], limit=limit)
        assert (answer.status, answer.json["field"]) == (400, "limit")

    @pytest.mark.parametrize("query", ["prefix=%ff", "prefix=a&prefix=b", "after=a&after=b"])
    def test_a_bad_query_is_refused(self, shelf: tuple[Client, list[str]], query: str) -> None:
        assert shelf[0].ask("GET", f"/v1/streams?{query}").status == 400

    def test_a_page_is_whole_while_streams_come_and_go(self, server: ServerProcess) -> None:
        client = Client(server.port)
        steady = [f"s/{number:02d}" for number in range(0, 20, 2)]
        for name in steady:
            client.put(name)
        found: list[str] = []
        after: str | None = ""
        turn = 0
        while after is not None:
            client.put(f"s/{turn * 2 + 1:02d}")
            client.put(f"s/00-{turn}")
            if turn:
                client.delete(f"s/{turn * 2 - 1:02d}")
            answer = self.listed(client, prefix="s/", after=after, limit=3)
            found += [stream["path"] for stream in answer.json["streams"]]
            after = answer.json["next_after"]
            turn += 1
        assert found == sorted(set(found))
        assert set(steady) <= set(found)

    def test_what_is_deleted_or_expired_is_not_listed(self, server: ServerProcess) -> None:
        client = Client(server.port)
        client.put("gone", b"x", TEXT)
        client.put("fork", headers={"Stream-Forked-From": ROOT + "gone"})
        client.put("brief", headers={"Stream-TTL": "0"})
        client.delete("gone")
        answer = self.listed(client)
        assert [stream["path"] for stream in answer.json["streams"]] == ["fork"]
        assert answer.json["streams"][0]["forked_from"] == "gone"
        assert json.loads(answer.body)["next_after"] is None


class TestGrantedEpochs:
    def test_all_that_ask_at_once_get_epochs_of_their_own(self, client: Client, name: str) -> None:
        client.put(name, headers=TEXT)
        ask = {"Producer-Id": "p", "Producer-Epoch": "next"}
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: client.post(name, b"", ask), range(24)))
        assert {answer.status for answer in answers} == {204}
        epochs = sorted(int(answer.headers["producer-epoch"]) for answer in answers)
        assert epochs == list(range(24))

    def test_a_granted_epoch_fences_and_outlives_a_crash(self, servers: Servers) -> None:
        server = servers.start()
        client = Client(server.port)
        client.put("s", headers=TEXT)

        def batch(epoch: int, seq: int) -> Answer:
            stamp = {"Producer-Id": "p", "Producer-Epoch": str(epoch), "Producer-Seq": str(seq)}
            return client.post("s", b"x", {**TEXT, **stamp})

        def ask() -> Answer:
            return client.post("s", b"", {"Producer-Id": "p", "Producer-Epoch": "next"})

        assert batch(4, 0).status == 200
        assert ask().headers["producer-epoch"] == "5"
        server.restart(kill=True)
        fenced = batch(4, 1)
        assert (fenced.status, fenced.headers["producer-epoch"]) == (403, "5")
        assert batch(5, 0).status == 200
        assert batch(5, 0).status == 204
        assert ask().headers["producer-epoch"] == "6"
        assert client.get("s").body == b"xx"
