"""Laws of the codecs: what goes out comes back, and nothing that comes in makes them fail."""

from __future__ import annotations

import base64
import json
from array import array
from urllib.parse import quote

import hypothesis.strategies as st
import pytest
from hypothesis import assume, example, given

from millstream.core.errors import Refused
from millstream.core.streams.commands import Append, Body
from millstream.wire import append, bodies, create, fields, names, problem, read, sse

HEADER_NAMES = st.sampled_from(
    [
        b"producer-id",
        b"producer-epoch",
        b"producer-seq",
        b"stream-seq",
        b"if-match",
        b"stream-closed",
        b"content-type",
        b"stream-ttl",
        b"stream-expires-at",
        b"stream-forked-from",
        b"stream-fork-offset",
        b"stream-fork-sub-offset",
    ]
)
TELLING = st.sampled_from(
    [
        b"0",
        b"-1",
        b"9" * 30,
        b"true",
        b"application/json",
        b"text/plain; a=b",
        b"2030-01-31T12:00:00Z",
        b"9999-12-31T23:59:60+23:59",
        b"0001-01-01T00:00:00+14:00",
        b"0000000000000000_0000000000000000",
        b"/v1/stream/a%2Fb",
        b"\xff",
        b"",
    ]
)
HEADERS = st.dictionaries(HEADER_NAMES, TELLING | st.binary(max_size=40))
JSON_SPACE = st.sampled_from([b"", b" ", b"\n", b"\t", b"\r\n"])
MILLISECONDS_MAX = 253_402_300_799_999
Page = tuple[int, int, int, int, bool]


def parse_sse(raw: bytes) -> list[tuple[str, bytes]]:
    """Read events as the standard says: what a browser would get."""
    events = []
    kind = ""
    lines: list[bytes] = []
    for line in raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        if not line:
            if lines:
                events.append((kind or "message", b"\n".join(lines)))
            kind, lines = "", []
            continue
        name, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if name == b"event":
            kind = value.decode()
        elif name == b"data":
            lines.append(value)
    return events


def normalised(data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=4))
@example([b" leading", b"\r", b"\n two"])
@example([b""])
def test_text_over_sse_comes_back_but_for_its_line_ends(parts: list[bytes]) -> None:
    raw = sse.text_event(parts)
    assert parse_sse(raw) == [("data", normalised(b"".join(parts)))]


@given(st.lists(st.lists(st.binary(max_size=12), min_size=1), max_size=4))
def test_events_in_a_row_do_not_run_into_each_other(events: list[list[bytes]]) -> None:
    raw = b"".join(map(sse.text_event, events))
    assert [data for _, data in parse_sse(raw)] == [normalised(b"".join(e)) for e in events]


@given(st.lists(st.binary(max_size=30), max_size=4))
def test_bytes_over_sse_come_back_exactly(parts: list[bytes]) -> None:
    [(kind, data)] = parse_sse(sse.base64_event(parts))
    assert kind == "data"
    assert base64.b64decode(data, validate=True) == b"".join(parts)


def spaced(values: list[bytes]) -> bytes:
    """Return an object that holds the values, with the spaces that people put in."""
    return b"{ " + b",\n\t".join(b'"%d" : %s' % pair for pair in enumerate(values)) + b" }"


SCALARS = (
    st.sampled_from([b"1.0", b"-0", b"1E400", b"18446744073709551617", b'"\\ud83d\\ude00"', b"{}"])
    | st.integers().map(lambda number: b"%d" % number)
    | st.text(max_size=8).map(lambda text: json.dumps(text, ensure_ascii=False).encode())
    | st.text(max_size=3).map(lambda text: json.dumps(text).encode())
)
JSON_TEXTS = SCALARS | st.lists(SCALARS, max_size=3).map(spaced)
"""One JSON value, written in any of the ways there are."""


@given(st.lists(JSON_TEXTS, max_size=5), JSON_SPACE, JSON_SPACE)
@example([b"18446744073709551616", b"1.0", b'{"a":1,"a":2}', b"1E400", b"-0"], b" ", b"\n")
def test_json_values_keep_their_bytes(values: list[bytes], before: bytes, behind: bytes) -> None:
    gap = before + b"," + behind
    body = bodies.json_body(before + b"[" + behind + gap.join(values) + b"]", may_be_empty=True)
    assert isinstance(body, Body), body
    assert (body.count, body.data) == (len(values), b",".join(values))
    if len(values) > 1:
        assert list(array("I", body.lengths)) == list(map(len, values))


@given(st.lists(JSON_TEXTS, min_size=1, max_size=5))
def test_json_values_over_sse_keep_their_bytes(values: list[bytes]) -> None:
    [(kind, data)] = parse_sse(sse.json_event(values))
    assert kind == "data"
    assert data == b"[" + b",".join(values) + b"]"


@given(JSON_TEXTS, JSON_SPACE)
def test_one_json_value_is_one_message(value: bytes, space: bytes) -> None:
    assume(not value.startswith(b"["))
    body = bodies.json_body(space + value + space, may_be_empty=False)
    assert isinstance(body, Body)
    assert (body.data, body.count) == (value, 1)


@given(
    st.binary(max_size=60) | st.text('[]{},:"\\ue-+.0123 truefalsn', max_size=30).map(str.encode)
)
def test_what_is_taken_for_json_is_json(raw: bytes) -> None:
    body = bodies.json_body(raw, may_be_empty=True)
    if isinstance(body, Refused):
        return
    value = json.loads(raw)
    assert body.count == (len(value) if isinstance(value, list) else 1)
    assert json.loads(b"[" + body.data + b"]") == (value if isinstance(value, list) else [value])


@given(st.text(min_size=1, max_size=40))
@example("a b/ü~%41/'(x)")
@example("a?b#c")
def test_a_name_comes_back_from_its_url(name: str) -> None:
    assume(not isinstance(names.check_name(name), Refused))
    path = names.url_path(name)
    assert path.isascii()
    assert "?" not in path
    assert "#" not in path
    raw = path.encode().removeprefix(names.STREAM_ROOT)
    assert names.stream_name(raw) == name
    assert names.source_name(path.encode()) == name


@given(st.binary(max_size=60) | st.text("/.%25eEfF~a_ds\\", max_size=20).map(str.encode))
def test_a_raw_path_is_a_good_name_or_refused(raw: bytes) -> None:
    for name in (names.stream_name(raw), names.source_name(raw)):
        if not isinstance(name, Refused):
            assert names.check_name(name) == name
            assert ".." not in name.split("/")
            assert "\0" not in name


@given(st.integers(0, 2**53 - 1), st.integers(0, 4))
def test_numbers_in_headers_come_back(number: int, zeros: int) -> None:
    assert fields.plain_integer(b"%d" % number, "X") == number
    assert fields.counter(b"0" * zeros + b"%d" % number, "X") == number


@given(st.binary(max_size=20) | st.text("0123456789+-_ ", max_size=20).map(str.encode))
def test_only_plain_digits_are_numbers(raw: bytes) -> None:
    for number in (fields.plain_integer(raw, "X"), fields.counter(raw, "X")):
        if not isinstance(number, Refused):
            assert raw.isdigit()
            assert number == int(raw) <= 2**53 - 1


@given(st.integers(0, MILLISECONDS_MAX))
def test_times_come_back(time_ms: int) -> None:
    assert fields.rfc3339_ms(fields.rfc3339(time_ms)) == time_ms


@given(st.text(max_size=40) | st.from_regex(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d([+-]\d\d:\d\d|Z)"))
def test_any_text_is_a_time_or_none(text: str) -> None:
    time_ms = fields.rfc3339_ms(text)
    assert time_ms is None or time_ms >= 0


@given(st.dictionaries(st.text(max_size=8), st.lists(st.text(max_size=8), min_size=1, max_size=3)))
def test_a_query_comes_back(values: dict[str, list[str]]) -> None:
    pairs = [(name, value) for name, each in values.items() for value in each]
    raw = "&".join(f"{quote(name, safe='')}={quote(value, safe='')}" for name, value in pairs)
    assume(raw)
    assert fields.query_values(raw.encode()) == values


@given(HEADERS, st.binary(max_size=40))
def test_no_append_makes_the_parser_fail(headers: dict[bytes, bytes], body: bytes) -> None:
    command = append.parse("a", headers, body)
    if isinstance(command, Refused):
        assert 400 <= command.code.status < 500
        assert problem.render(command).status == command.code.status
    else:
        assert isinstance(command, Append)
        assert command.is_closing or body


@given(HEADERS, st.binary(max_size=40))
def test_no_creation_makes_the_parser_fail(headers: dict[bytes, bytes], body: bytes) -> None:
    wanted = create.parse(headers)
    if isinstance(wanted, Refused):
        assert 400 <= wanted.code.status < 500
        return
    assert wanted.ttl_s is None or wanted.expires_at_ms is None
    messages = create.parse_body(wanted.content_type, body)
    if isinstance(messages, Refused):
        assert 400 <= messages.code.status < 500


@given(
    st.binary(max_size=60)
    | st.lists(
        st.sampled_from(
            ["offset=", "live=", "cursor=", "limit=", "at=", "now", "-1", "sse", "&", "9"]
        )
        | st.text(max_size=4),
        max_size=8,
    ).map(lambda parts: "".join(parts).encode())
)
def test_no_query_makes_the_parser_fail(raw: bytes) -> None:
    wanted = read.parse(raw)
    if isinstance(wanted, Refused):
        assert 400 <= wanted.code.status < 500
    else:
        assert 1 <= wanted.limit <= read.LIMIT_MAX


@given(
    st.integers(read.CURSOR_EPOCH_MS, MILLISECONDS_MAX),
    st.integers(0, 10**12),
    st.none() | st.integers(0, 2**53),
    st.integers(1, read.CURSOR_JITTER_MAX),
)
def test_cursors_only_go_up(now_ms: int, later_ms: int, seen: int | None, jitter: int) -> None:
    cursor = read.next_cursor(now_ms, seen, jitter)
    assert seen is None or cursor > seen
    assert read.next_cursor(now_ms + later_ms, cursor, jitter) > cursor
    assert read.next_cursor(now_ms + later_ms, None, jitter) >= read.next_cursor(
        now_ms, None, jitter
    )


PAGES = st.tuples(*[st.integers(0, 12)] * 4, st.booleans())


@given(PAGES, PAGES)
@example((1, 11, 1, 1, False), (11, 1, 1, 1, False))
@example((1, 2, 3, 4, False), (1, 2, 3, 4, True))
def test_two_pages_have_two_tags(one: Page, two: Page) -> None:
    tags = [read.etag(page[0], page[1], page[2:4], is_eof=page[4]) for page in (one, two)]
    assert (tags[0] == tags[1]) == (one == two)
    assert read.is_cached(b"W/" + tags[0] + b" , " + tags[0], tags[1]) == (one == two)
    assert read.is_cached(b"*", tags[0])


@pytest.mark.parametrize("is_closed", [False, True])
@given(cursor=st.integers(0, 2**53), is_current=st.booleans())
def test_a_control_event_is_json_with_the_fields_of_the_protocol(
    is_closed: bool, cursor: int, is_current: bool
) -> None:
    raw = sse.control_event("0_0", cursor, is_current=is_current, is_closed=is_closed)
    [(kind, data)] = parse_sse(raw)
    fields_found = json.loads(data)
    assert kind == "control"
    assert fields_found["streamNextOffset"] == "0_0"
    assert ("streamCursor" in fields_found) != is_closed
    assert fields_found.get("upToDate", False) == (is_closed or is_current)
