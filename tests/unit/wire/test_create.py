import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO, Position
from millstream.core.streams.commands import EMPTY, Body, Created, ForkRequest
from millstream.wire.create import Wanted, parse, parse_body, render_answer

FORK = {b"stream-forked-from": b"/v1/stream/s"}
OFFSET = b"0000000000000007_0000000000000003"


def wanted(headers: dict[bytes, bytes]) -> Wanted:
    found = parse(headers)
    assert isinstance(found, Wanted)
    return found


def test_nothing_asked_is_nothing_set() -> None:
    assert parse({}) == Wanted(None, None, None, is_closed=False, fork=None)


def test_life_type_and_closure_are_read() -> None:
    assert wanted({b"stream-ttl": b"0"}).ttl_s == 0
    assert wanted({b"stream-expires-at": b"1970-01-01T00:00:01Z"}).expires_at_ms == 1000
    assert wanted({b"stream-closed": b"True"}).is_closed
    assert wanted({b"content-type": b"a/b; c"}).content_type == "a/b; c"
    assert wanted({b"content-type": b"nonsense"}).content_type is None


def test_a_fork_names_its_source_and_its_point() -> None:
    assert wanted(FORK).fork == ForkRequest("s", None, 0)
    assert wanted({**FORK, b"stream-fork-offset": b"-1"}).fork == ForkRequest("s", ZERO, 0)
    point = {b"stream-fork-offset": OFFSET, b"stream-fork-sub-offset": b"4"}
    assert wanted({**FORK, **point}).fork == ForkRequest("s", Position(7, 3), 4)


@pytest.mark.parametrize(
    "headers, field",
    [
        ({b"stream-ttl": b"1", b"stream-expires-at": b"2030-01-01T00:00:00Z"}, "Stream-Expires-At"),
        ({b"stream-ttl": b"01"}, "Stream-TTL"),
        ({b"stream-expires-at": b"tomorrow"}, "Stream-Expires-At"),
        ({b"stream-fork-offset": b"-1"}, "Stream-Fork-Offset"),
        ({b"stream-fork-sub-offset": b"0"}, "Stream-Fork-Sub-Offset"),
        ({**FORK, b"stream-fork-offset": b"x"}, "Stream-Fork-Offset"),
        ({**FORK, b"stream-fork-sub-offset": b"1"}, "Stream-Fork-Sub-Offset"),
        ({**FORK, b"stream-fork-sub-offset": b""}, "Stream-Fork-Sub-Offset"),
        ({b"stream-forked-from": b".."}, "Stream-Forked-From"),
    ],
)
def test_a_refusal_names_the_header(headers: dict[bytes, bytes], field: str) -> None:
    refusal = parse(headers)
    assert isinstance(refusal, Refused)
    assert refusal.field == field


def test_first_messages_are_cut_only_in_json_streams() -> None:
    assert parse_body("application/json", b"[1,2]") == Body(b"1,2", 2, b"\1\0\0\0\1\0\0\0")
    assert parse_body("text/plain", b"[1,2]") == Body(b"[1,2]", 1)
    assert parse_body(None, b"") is EMPTY
    assert parse_body("application/json", b"") is EMPTY
    assert isinstance(parse_body("application/json", b"{"), Refused)


def test_a_new_stream_is_201_with_its_url_and_a_known_one_200() -> None:
    made = Created(1, "text/plain", ZERO, is_closed=True, is_new=True)
    answer = render_answer(made, "a b", "http://x")
    assert answer.status == 201
    assert (b"location", b"http://x/v1/stream/a%20b") in answer.headers
    assert (b"stream-closed", b"true") in answer.headers
    known = Created(1, "text/plain", ZERO, is_closed=False, is_new=False)
    again = render_answer(known, "a", "http://x")
    assert again.status == 200
    assert b"location" not in dict(again.headers)
    assert render_answer(Refused(code=Code.STREAM_EXISTS, detail="d"), "a", "").status == 409
