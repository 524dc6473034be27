from tests.support.command import json_lines, ok, run
from tests.support.scripted import Reply, replies, scripted

FORKED = Reply(201, {"stream-next-offset": "0_5"})


def test_a_fork_names_its_source_by_path_and_where_it_branches() -> None:
    with scripted(replies(FORKED)) as server:
        flags = ("--offset", "0_4", "--sub-offset", "1", "--ttl", "1m")
        out = ok("fork", "a b", "c", *flags, url=server.url)
    asked = server.asked[0]
    assert (asked.method, asked.path) == ("PUT", "/v1/stream/c")
    assert asked.headers["stream-forked-from"] == "/v1/stream/a%20b"
    assert asked.headers["stream-fork-offset"] == "0_4"
    assert asked.headers["stream-fork-sub-offset"] == "1"
    assert asked.headers["stream-ttl"] == "60"
    # The fork takes the type of its source.
    assert "content-type" not in asked.headers
    assert out == "forked a b at 0_5 into c\n"


def test_the_json_form_has_both_names() -> None:
    with scripted(replies(FORKED)) as server:
        facts = json_lines(ok("fork", "a", "c", "--json", url=server.url))[0]
    assert (facts["source"], facts["stream"], facts["created"]) == ("a", "c", True)


def test_a_negative_sub_offset_is_wrong_usage() -> None:
    assert run("fork", "a", "b", "--sub-offset", "-1").exit_code == 2
