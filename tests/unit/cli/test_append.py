from pathlib import Path

import pytest

from tests.support.command import json_lines, ok, run
from tests.support.scripted import Asked, Reply, Script, Scripted, scripted

ENDED = {"stream-next-offset": "0_9"}


def taking(content_type: str, *answers: Reply) -> Script:
    """Answer HEAD with the type, then POSTs with the answers; the last is repeated."""
    waiting = list(answers)

    def script(asked: Asked) -> Reply:
        if asked.method == "HEAD":
            return Reply(200, {"content-type": content_type})
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    return script


def posts(server: Scripted) -> list[Asked]:
    return [asked for asked in server.asked if asked.method == "POST"]


def test_a_json_document_is_appended_as_it_is() -> None:
    with scripted(taking("application/json", Reply(204, ENDED))) as server:
        out = ok("append", "a", url=server.url, stdin=b'[1.0, {"b":1}]')
    assert out == "appended 2 to a; next offset 0_9\n"
    (asked,) = posts(server)
    assert asked.body == b'[1.0, {"b":1}]'
    assert asked.headers["content-type"] == "application/json"
    assert "producer-id" not in asked.headers


def test_input_comes_from_a_file_or_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "in"
    file.write_bytes(b"from file")
    with scripted(taking("text/plain", Reply(204, ENDED))) as server:
        ok("append", "a", str(file), url=server.url)
        ok("append", "a", "-d", "from flag", url=server.url)
    assert [asked.body for asked in posts(server)] == [b"from file", b"from flag"]


def test_ndjson_becomes_arrays_of_at_most_so_many_lines() -> None:
    with scripted(taking("application/json", Reply(204, ENDED))) as server:
        flags = ("--ndjson", "--batch-messages", "2", "--json")
        out = ok("append", "a", *flags, url=server.url, stdin=b"1\n\n2\n3.0\n")
    assert [asked.body for asked in posts(server)] == [b"[1]", b"[2,3.0]"]
    assert json_lines(out)[0]["appended"] == 3


def test_lines_for_a_stream_without_structure_are_messages_of_their_own() -> None:
    with scripted(taking("text/plain", Reply(204, ENDED))) as server:
        ok("append", "a", "--ndjson", url=server.url, stdin=b"one\ntwo\n")
    assert [asked.body for asked in posts(server)] == [b"one\n", b"two\n"]


def test_bytes_are_cut_at_the_batch_size() -> None:
    with scripted(taking("text/plain", Reply(204, ENDED))) as server:
        ok("append", "a", "--batch-bytes", "3", url=server.url, stdin=b"abcdefg")
    assert [asked.body for asked in posts(server)] == [b"abc", b"def", b"g"]


def test_a_line_that_is_not_json_is_named_and_what_came_before_is_told() -> None:
    with scripted(taking("application/json", Reply(204, ENDED))) as server:
        flags = ("--ndjson", "--batch-messages", "1")
        result = run("append", "a", *flags, url=server.url, stdin=b"1\n2\n{\n")
    assert result.exit_code == 1
    assert "line 3 is not one JSON value" in result.stderr


def test_every_batch_of_a_producer_has_its_sequence() -> None:
    with scripted(taking("text/plain", Reply(200, ENDED))) as server:
        flags = ("--producer", "job:7:3", "--batch-bytes", "2")
        ok("append", "a", *flags, url=server.url, stdin=b"abcd")
    found = [
        (h["producer-id"], h["producer-epoch"], h["producer-seq"])
        for h in (asked.headers for asked in posts(server))
    ]
    assert found == [("job:7", "3", "0"), ("job:7", "3", "1")]


def test_a_repeated_run_counts_what_was_there_already() -> None:
    script = taking("application/json", Reply(204, ENDED), Reply(200, ENDED))
    with scripted(script) as server:
        flags = ("--ndjson", "--producer", "p:0", "--batch-messages", "2", "--json")
        facts = json_lines(ok("append", "a", *flags, url=server.url, stdin=b"1\n2\n3\n"))[0]
    assert (facts["duplicates"], facts["appended"]) == (2, 1)


def test_an_append_without_answer_is_sent_again_under_the_same_sequence() -> None:
    script = taking("text/plain", Reply(cut=True), Reply(503), Reply(200, ENDED))
    with scripted(script) as server:
        ok("append", "a", "-d", "x", "--producer", "p:0", url=server.url)
    assert {asked.headers["producer-seq"] for asked in posts(server)} == {"0"}
    assert len(posts(server)) == 3


def test_without_a_producer_nothing_is_sent_twice() -> None:
    with scripted(taking("text/plain", Reply(cut=True), Reply(204, ENDED))) as server:
        assert run("append", "a", "-d", "x", url=server.url).exit_code == 6
    assert len(posts(server)) == 1


def test_a_producer_without_epoch_takes_one_above_the_last() -> None:
    fenced = Reply(403, {"producer-epoch": "9007199254740000"}, b'{"code":"producer_fenced"}')
    with scripted(taking("text/plain", fenced, Reply(200, ENDED))) as server:
        ok("append", "a", "-d", "x", "--producer", "p", url=server.url)
    first, second = (int(asked.headers["producer-epoch"]) for asked in posts(server))
    assert first > 1_600_000_000_000
    assert second == 9007199254740001


def test_a_producer_with_a_fixed_epoch_is_fenced() -> None:
    fenced = Reply(403, {"producer-epoch": "5"}, b'{"code":"producer_fenced"}')
    with scripted(taking("text/plain", fenced)) as server:
        assert run("append", "a", "-d", "x", "--producer", "p:4", url=server.url).exit_code == 4


@pytest.mark.parametrize("producer", ["", ":1", "p:", "p:x", "p:9007199254740992"])
def test_a_producer_is_an_id_and_perhaps_an_epoch(producer: str) -> None:
    flags = ("-t", "text/plain", "-d", "x", "--producer", producer)
    assert run("append", "a", *flags).exit_code == 2


def test_the_condition_holds_for_the_first_append_only() -> None:
    with scripted(taking("text/plain", Reply(204, ENDED))) as server:
        flags = ("--if-match", "0_1", "--batch-bytes", "1")
        ok("append", "a", *flags, url=server.url, stdin=b"xy")
    assert [asked.headers.get("if-match") for asked in posts(server)] == ["0_1", None]


def test_the_last_append_closes() -> None:
    with scripted(taking("text/plain", Reply(204, ENDED))) as server:
        ok("append", "a", "--close", "--batch-bytes", "1", url=server.url, stdin=b"xy")
        ok("append", "a", "--close", url=server.url, stdin=b"")
    found = [(asked.body, asked.headers.get("stream-closed")) for asked in posts(server)]
    assert found == [(b"x", None), (b"y", "true"), (b"", "true")]


def test_nothing_to_append_is_a_failure() -> None:
    with scripted(taking("text/plain", Reply(204, ENDED))) as server:
        assert run("append", "a", url=server.url, stdin=b"").exit_code == 1


def test_a_given_type_saves_the_question() -> None:
    with scripted(taking("x/y", Reply(204, ENDED))) as server:
        ok("append", "a", "-t", "text/plain", "-d", "x", url=server.url)
    assert [asked.method for asked in server.asked] == ["POST"]
