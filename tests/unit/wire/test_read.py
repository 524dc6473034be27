import pytest

from millstream.core.errors import Refused
from millstream.core.offsets import ZERO, Position
from millstream.wire.read import (
    CURSOR_EPOCH_MS,
    FROM_START,
    LIMIT_MAX,
    Mode,
    Wanted,
    etag,
    is_cached,
    next_cursor,
    parse,
)

OFFSET = "0000000000000007_0000000000000003"


@pytest.mark.parametrize(
    "query, wanted",
    [
        (b"", FROM_START),
        (b"unknown=1", FROM_START),
        (b"offset=-1", FROM_START),
        (b"offset=now", Wanted(Mode.CATCH_UP, None, None, LIMIT_MAX)),
        (
            OFFSET.join(("offset=", "&live=sse")).encode(),
            Wanted(Mode.SSE, Position(7, 3), None, LIMIT_MAX),
        ),
        (b"offset=-1&live=long-poll&cursor=5", Wanted(Mode.LONG_POLL, ZERO, 5, LIMIT_MAX)),
        (b"limit=3", Wanted(Mode.CATCH_UP, ZERO, None, 3)),
        (b"at=1000", Wanted(Mode.CATCH_UP, Position(1000, 0), None, LIMIT_MAX)),
        (
            b"at=1970-01-01T01:00:01+01:00&live=sse",
            Wanted(Mode.SSE, Position(1000, 0), None, LIMIT_MAX),
        ),
    ],
)
def test_a_query_is_read(query: bytes, wanted: Wanted) -> None:
    assert parse(query) == wanted


@pytest.mark.parametrize(
    "query, field",
    [
        (b"offset=", "offset"),
        (b"offset=1", "offset"),
        (b"offset=-1&offset=-1", "offset"),
        (b"live=sse", "offset"),
        (b"live=poll&offset=-1", "live"),
        (b"limit=0", "limit"),
        (b"limit=1000001", "limit"),
        (b"at=soon", "at"),
        (b"at=1&offset=-1", "at"),
        (b"x=%ff", "query"),
    ],
)
def test_a_refusal_names_the_parameter(query: bytes, field: str) -> None:
    refusal = parse(query)
    assert isinstance(refusal, Refused)
    assert refusal.field == field


@pytest.mark.parametrize("cursor", [b"", b"x", b"-1", b"9" * 400, b"1&cursor=2"])
def test_an_unreadable_cursor_is_no_cursor(cursor: bytes) -> None:
    wanted = parse(b"cursor=" + cursor)
    assert isinstance(wanted, Wanted)
    assert wanted.cursor is None


def test_a_cursor_counts_20_seconds_and_always_moves_on() -> None:
    now_ms = CURSOR_EPOCH_MS + 100 * 20_000
    assert next_cursor(now_ms, None, 5) == 100
    assert next_cursor(now_ms + 19_999, 99, 5) == 100
    assert next_cursor(now_ms, 100, 5) == 105
    assert next_cursor(now_ms, 1000, 1) == 1001
    assert next_cursor(0, None, 5) == 0


def test_tags_differ_by_incarnation_range_and_end() -> None:
    tags = {
        etag(1, 9, (0, 5), is_eof=False),
        etag(2, 9, (0, 5), is_eof=False),
        etag(1, 8, (0, 5), is_eof=False),
        etag(1, 9, (1, 5), is_eof=False),
        etag(1, 9, (0, 6), is_eof=False),
        etag(1, 9, (0, 5), is_eof=True),
    }
    assert len(tags) == 6


@pytest.mark.parametrize("held", [b'"t"', b'W/"t"', b'"a", "t"', b' "a" ,W/"t",', b"*", b" * "])
def test_a_tag_matches_weak_in_a_list_or_by_star(held: bytes) -> None:
    assert is_cached(held, b'"t"')


@pytest.mark.parametrize("held", [None, b"", b'"a"', b"t", b'W/ "t"', b'"t', b'"tt"'])
def test_other_tags_do_not_match(held: bytes | None) -> None:
    assert not is_cached(held, b'"t"')
