import pytest

from tests.support.command import json_lines, ok, run
from tests.support.scripted import Asked, Reply, Script, scripted

SSE = {"content-type": "text/event-stream"}


def control(offset: str, *, closed: bool = False) -> str:
    ending = ',"streamClosed":true' if closed else ',"streamCursor":"c1","upToDate":true'
    return f'event: control\ndata: {{"streamNextOffset":"{offset}"{ending}}}\n\n'


def data(text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.split("\n"))
    return f"event: data\n{lines}\n"


def stream(content_type: str, *connections: str | Reply, headers: dict[str, str] = SSE) -> Script:
    """Answer HEAD, then every GET with the next of `connections`."""
    waiting = list(connections)

    def script(asked: Asked) -> Reply:
        if asked.method == "HEAD":
            return Reply(200, {"content-type": content_type})
        following = waiting.pop(0)
        return Reply(200, headers, following.encode()) if isinstance(following, str) else following

    return script


def test_a_stream_is_followed_until_it_is_closed() -> None:
    events = control("0_0") + data("[1,\n2]") + control("0_2") + control("0_2", closed=True)
    with scripted(stream("application/json", events)) as server:
        assert ok("tail", "a", url=server.url) == "1\n2\n"
    assert server.asked[1].query == {"offset": "now", "live": "sse"}


def test_after_a_disconnect_it_goes_on_behind_the_last_position() -> None:
    first = data("[1]") + control("0_1") + data("[2]")
    second = data("[2]") + control("0_2", closed=True)
    with scripted(stream("application/json", first, Reply(503), second)) as server:
        out = ok("tail", "a", "--offset", "-1", url=server.url)
    # The first [2] came without its position, so it is printed only once.
    assert out == "1\n2\n"
    resumed = {"offset": "0_1", "cursor": "c1", "live": "sse"}
    assert [asked.query for asked in server.asked[2:]] == [resumed, resumed]


def test_a_text_keeps_its_spaces_and_lines() -> None:
    events = data("  two\n") + control("0_1", closed=True)
    with scripted(stream("text/plain", events)) as server:
        assert ok("tail", "a", url=server.url) == "  two\n"


def test_bytes_are_decoded() -> None:
    events = data("AAH/\nAg==") + control("0_1", closed=True)
    headers = {**SSE, "stream-sse-data-encoding": "base64"}
    with scripted(stream("application/octet-stream", events, headers=headers)) as server:
        result = run("tail", "a", url=server.url)
    assert result.stdout_bytes == b"\x00\x01\xff\x02"


def test_the_json_form_has_a_line_per_batch() -> None:
    events = data("[1]") + control("0_1") + control("0_1", closed=True)
    with scripted(stream("application/json", events)) as server:
        found = json_lines(ok("tail", "a", "--json", url=server.url))
    assert found == [
        {"next_offset": "0_1", "closed": False, "messages": [1]},
        {"next_offset": "0_1", "closed": True, "messages": []},
    ]


def test_a_limit_ends_it() -> None:
    events = data("[1]") + control("0_1") + data("[2]") + control("0_2")
    with scripted(stream("application/json", events)) as server:
        assert ok("tail", "a", "-n", "1", url=server.url) == "1\n"


def test_it_starts_at_a_time() -> None:
    with scripted(stream("application/json", control("0_1", closed=True))) as server:
        ok("tail", "a", "--since", "1970-01-01T00:00:05Z", url=server.url)
    assert server.asked[1].query == {"at": "5000", "live": "sse"}
    assert run("tail", "a", "--offset", "0_2", "--since", "1d").exit_code == 2


@pytest.mark.parametrize("patience,expected", [("0", 6), ("1h", 3)])
def test_patience_ends_and_refusals_end_it_at_once(patience: str, expected: int) -> None:
    script = stream("application/json", Reply(503), Reply(404))
    with scripted(script) as server:
        result = run("tail", "a", "--patience", patience, url=server.url)
    assert result.exit_code == expected


def test_a_stream_that_is_not_there_is_not_waited_for() -> None:
    with scripted(lambda _: Reply(404)) as server:
        assert run("tail", "a", url=server.url).exit_code == 3
