from pathlib import Path

from tests.support.command import json_lines, ok, run
from tests.support.scripted import Reply, replies, scripted

CREATED = Reply(201, {"content-type": "application/json", "stream-next-offset": "0_1"})


def test_a_stream_is_created_with_its_type_and_life_time() -> None:
    with scripted(replies(CREATED)) as server:
        out = ok("create", "a/b", "-t", "text/plain", "--ttl", "1h", url=server.url)
    asked = server.asked[0]
    assert (asked.method, asked.path, asked.body) == ("PUT", "/v1/stream/a/b", b"")
    assert asked.headers["content-type"] == "text/plain"
    assert asked.headers["stream-ttl"] == "3600"
    assert "stream-closed" not in asked.headers
    assert out == f"created {server.url}/v1/stream/a/b\n"


def test_the_first_content_comes_from_a_file_or_standard_input(tmp_path: Path) -> None:
    file = tmp_path / "first.json"
    file.write_bytes(b"[1]")
    with scripted(replies(CREATED)) as server:
        ok("create", "a", str(file), "--closed", url=server.url)
        ok("create", "a", "-", url=server.url, stdin=b"[2]")
    assert [asked.body for asked in server.asked] == [b"[1]", b"[2]"]
    assert server.asked[0].headers["stream-closed"] == "true"


def test_the_json_form_says_whether_it_is_new() -> None:
    with scripted(replies(CREATED, Reply(200, {"stream-closed": "true"}))) as server:
        first = json_lines(ok("create", "a", "--json", url=server.url))[0]
        second = json_lines(ok("create", "a", "--json", url=server.url))[0]
    assert (first["created"], first["next_offset"], first["closed"]) == (True, "0_1", False)
    assert (second["created"], second["closed"]) == (False, True)


def test_another_set_up_is_a_conflict() -> None:
    with scripted(replies(Reply(409, body=b'{"detail":"other type"}'))) as server:
        result = run("create", "a", url=server.url)
    assert result.exit_code == 4
    assert "other type" in result.stderr
