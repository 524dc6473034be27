import json

from tests.support.command import json_lines, ok, run
from tests.support.scripted import Asked, Reply, replies, scripted

NAMES = [f"s{number:02d}" for number in range(7)]


def listing(asked: Asked) -> Reply:
    """List NAMES, three on a page at most."""
    size = min(3, int(asked.query["limit"]))
    names = [name for name in NAMES if name > asked.query.get("after", "")]
    entries = [
        {"path": name, "messages": 1, "bytes": 2, "next_offset": "0_1", "closed": name == "s01"}
        for name in names[:size]
    ]
    after = names[size - 1] if len(names) > size else None
    return Reply(200, body=json.dumps({"streams": entries, "next_after": after}).encode())


def test_all_pages_are_listed() -> None:
    with scripted(listing) as server:
        assert ok("ls", url=server.url).split() == NAMES
        assert len(server.asked) == 3


def test_prefix_after_and_limit_reach_the_server() -> None:
    with scripted(listing) as server:
        assert ok("ls", "s", "--after", "s01", "-n", "4", url=server.url).split() == NAMES[2:6]
    assert [asked.query for asked in server.asked] == [
        {"prefix": "s", "after": "s01", "limit": "4"},
        {"prefix": "s", "after": "s04", "limit": "1"},
    ]


def test_the_long_form_shows_size_and_state() -> None:
    with scripted(listing) as server:
        lines = ok("ls", "-l", "-n", "2", url=server.url).splitlines()
    assert [line.split()[3] for line in lines] == ["open", "closed"]


def test_the_json_form_is_one_stream_per_line() -> None:
    with scripted(listing) as server:
        found = json_lines(ok("ls", "--json", url=server.url))
    assert [stream["path"] for stream in found] == NAMES


def test_a_server_that_lists_nothing_of_the_kind_is_a_failure() -> None:
    with scripted(replies(Reply(200, body=b"<html>"))) as server:
        assert run("ls", url=server.url).exit_code == 1
