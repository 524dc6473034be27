from tests.support.command import json_lines, ok, run
from tests.support.scripted import Asked, Reply, replies, scripted


def missing_b(asked: Asked) -> Reply:
    return Reply(404, body=b'{"detail":"no b"}') if asked.path.endswith("/b") else Reply(204)


def test_every_stream_is_deleted() -> None:
    with scripted(replies(Reply(204))) as server:
        assert ok("rm", "a", "b", url=server.url) == "deleted a\ndeleted b\n"
    assert [(asked.method, asked.path) for asked in server.asked] == [
        ("DELETE", "/v1/stream/a"),
        ("DELETE", "/v1/stream/b"),
    ]


def test_one_missing_stream_does_not_keep_the_others() -> None:
    with scripted(missing_b) as server:
        result = run("rm", "a", "b", "c", url=server.url)
    assert result.exit_code == 3
    assert result.stdout == "deleted a\ndeleted c\n"
    assert "no b" in result.stderr


def test_force_does_not_mind_missing_streams() -> None:
    with scripted(missing_b) as server:
        out = ok("rm", "-f", "a", "b", "--json", url=server.url)
    assert json_lines(out) == [{"stream": "a", "deleted": True}]
