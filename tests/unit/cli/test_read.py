import json

import pytest

from tests.support.command import json_lines, ok, run
from tests.support.scripted import Asked, Reply, Script, replies, scripted

JSON = {"content-type": "application/json"}
BYTES = {"content-type": "application/octet-stream"}


def paged(headers: dict[str, str], total: int, size: int) -> Script:
    """A stream of messages 1, 2, …; pages hold `size` messages."""

    def script(asked: Asked) -> Reply:
        offset = asked.query.get("offset", "-1")
        first = 0 if offset == "-1" else int(offset.rpartition("_")[2])
        last = min(first + min(size, int(asked.query.get("limit", size))), total)
        found = list(range(first + 1, last + 1))
        is_json = headers is JSON
        body = json.dumps(found).encode() if is_json else b"".join(b"%d;" % n for n in found)
        end = {"stream-up-to-date": "true"} if last == total else {}
        return Reply(200, {**headers, **end, "stream-next-offset": f"0_{last}"}, body)

    return script


def test_all_pages_of_a_json_stream_are_printed_one_value_per_line() -> None:
    with scripted(paged(JSON, 7, 3)) as server:
        assert ok("read", "a", url=server.url) == "1\n2\n3\n4\n5\n6\n7\n"
    assert [asked.query["offset"] for asked in server.asked] == ["-1", "0_3", "0_6"]


def test_bytes_are_printed_as_they_are() -> None:
    with scripted(paged(BYTES, 4, 3)) as server:
        assert ok("read", "a", url=server.url) == "1;2;3;4;"


@pytest.mark.parametrize("headers,expected", [(JSON, "1\n2\n3\n4\n5\n"), (BYTES, "1;2;3;4;5;")])
def test_a_limit_counts_messages_over_pages(headers: dict[str, str], expected: str) -> None:
    with scripted(paged(headers, 9, 3)) as server:
        assert ok("read", "a", "-n", "5", url=server.url) == expected
    assert [asked.query["limit"] for asked in server.asked] == ["5", "2"]


def test_reading_starts_at_an_offset_or_at_a_time() -> None:
    with scripted(paged(JSON, 4, 9)) as server:
        assert ok("read", "a", "--offset", "0_2", url=server.url) == "3\n4\n"
        ok("read", "a", "--since", "1970-01-01T00:00:05Z", url=server.url)
    assert server.asked[1].query == {"at": "5000"}
    assert run("read", "a", "--offset", "0_2", "--since", "1d").exit_code == 2


def test_the_json_form_has_a_line_per_page_with_the_next_offset() -> None:
    with scripted(paged(JSON, 4, 3)) as server:
        found = json_lines(ok("read", "a", "--json", url=server.url))
    assert found == [
        {"next_offset": "0_3", "closed": False, "messages": [1, 2, 3]},
        {"next_offset": "0_4", "closed": False, "messages": [4]},
    ]


def test_reading_ends_where_a_closed_stream_ends() -> None:
    headers = {**JSON, "stream-closed": "true", "stream-next-offset": "0_1"}
    with scripted(replies(Reply(200, headers, b"[1]"))) as server:
        assert ok("read", "a", url=server.url) == "1\n"
        assert len(server.asked) == 1


def test_a_server_that_does_not_move_on_is_not_asked_for_ever() -> None:
    headers = {**JSON, "stream-next-offset": "0_1"}
    with scripted(replies(Reply(200, headers, b"[]"))) as server:
        ok("read", "a", "--offset", "0_1", url=server.url)
        assert len(server.asked) == 1


@pytest.mark.parametrize("status,expected", [(404, 3), (410, 3), (400, 1), (503, 6)])
def test_refusals_become_exit_statuses(status: int, expected: int) -> None:
    with scripted(replies(Reply(status))) as server:
        assert run("read", "a", url=server.url).exit_code == expected
