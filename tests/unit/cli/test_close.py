from tests.support.command import json_lines, ok, run
from tests.support.scripted import Reply, replies, scripted

CLOSED = Reply(204, {"stream-next-offset": "0_9", "stream-closed": "true"})


def test_closing_sends_no_body() -> None:
    with scripted(replies(CLOSED)) as server:
        assert ok("close", "a", url=server.url) == "closed a at 0_9\n"
    asked = server.asked[0]
    assert (asked.method, asked.path, asked.body) == ("POST", "/v1/stream/a", b"")
    assert asked.headers["stream-closed"] == "true"


def test_the_json_form_has_the_final_offset() -> None:
    with scripted(replies(CLOSED)) as server:
        facts = json_lines(ok("close", "a", "--json", url=server.url))
    assert facts == [{"stream": "a", "closed": True, "next_offset": "0_9"}]


def test_a_missing_stream_is_not_found() -> None:
    with scripted(replies(Reply(404))) as server:
        assert run("close", "a", url=server.url).exit_code == 3
