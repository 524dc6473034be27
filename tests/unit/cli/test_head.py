from tests.support.command import json_lines, ok, run
from tests.support.scripted import Reply, replies, scripted

HEAD = Reply(200, {"content-type": "text/plain", "stream-next-offset": "0_3", "stream-ttl": "60"})


def test_the_facts_of_a_stream_are_printed_by_name() -> None:
    with scripted(replies(HEAD)) as server:
        lines = ok("head", "a", url=server.url).splitlines()
    assert server.asked[0].method == "HEAD"
    assert dict(line.split() for line in lines) == {
        "stream": "a",
        "content_type": "text/plain",
        "next_offset": "0_3",
        "closed": "no",
        "ttl_s": "60",
    }


def test_the_json_form_has_numbers_and_truths() -> None:
    with scripted(replies(HEAD)) as server:
        facts = json_lines(ok("head", "a", "--json", url=server.url))[0]
    assert (facts["ttl_s"], facts["closed"]) == (60, False)


def test_errors_of_head_have_no_body_but_an_exit_status() -> None:
    with scripted(replies(Reply(404), Reply(410))) as server:
        first = run("head", "a", "--json", url=server.url)
        assert run("head", "a", url=server.url).exit_code == 3
    assert first.exit_code == 3
    assert json_lines(first.stderr)[0]["error"]["status"] == 404
    assert "no such stream" in first.stderr
