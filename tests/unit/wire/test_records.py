"""The records dialect as bytes: what is taken, what is refused, and how answers look."""

from __future__ import annotations

import json

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO, Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import EMPTY, AppendRecords, Body
from millstream.wire.bodies import VALUES_MAX
from millstream.wire.records import (
    Wanted,
    offset_text,
    parse_append,
    parse_read,
    render_offsets,
    render_records,
)

OFFSET = "00017000000000000000000000000042"


def posted(
    body: bytes, query: bytes = b"", headers: dict[bytes, bytes] | None = None
) -> AppendRecords | Refused:
    return parse_append("a", query, headers or {}, body)


def taken(body: bytes) -> Body:
    command = posted(body)
    assert isinstance(command, AppendRecords), command
    return command.body


def test_records_keep_their_original_bytes() -> None:
    body = taken(b'{ "records" : [ 1.0, {"b":1,"b": 2} ,"\\u00e9", 12345678901234567890, [1,2]] }')
    assert body.data == b'1.0,{"b":1,"b": 2},"\\u00e9",12345678901234567890,[1,2]'
    assert body.count == 5
    assert body.lengths == b"".join(n.to_bytes(4, "little") for n in (3, 14, 8, 20, 5))


def test_one_record_is_a_message_without_lengths() -> None:
    assert taken(b'{"records":["\xc3\xa9"]}') == Body(b'"\xc3\xa9"', 1)


@pytest.mark.parametrize(
    "body", [b"", b" \r\n", b"{}", b'{"records":[]}', b'{"other":{"records":[1]},"x":null}']
)
def test_no_records_are_a_question(body: bytes) -> None:
    assert taken(body) == EMPTY


@pytest.mark.parametrize(
    "body",
    [
        *(b"[1]", b"1", b'"x"', b"null", b'{"records":null}', b'{"records":{}}'),
        *(b'{"records":"x"}', b'{"records":1}', b"{", b'{"records":[1}', b'{"records":[1,]}'),
        *(b'{"records":[NaN]}', b'{"records":["\xff"]}', b'{"records":["\\ud800"]}', b"{} {}"),
        *(b'{"records":[' + b"[" * 5000 + b"]" * 5000 + b"]}", b"\x00", b"\xef\xbb\xbf{}"),
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    refusal = posted(body)
    assert isinstance(refusal, Refused), refusal
    assert (refusal.code.status, refusal.field) == (400, "body")


def test_more_values_than_can_be_cut_in_time_are_too_large() -> None:
    refusal = posted(b'{"records":[' + b"0," * (VALUES_MAX + 1) + b"0]}")
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.BODY_TOO_LARGE


@pytest.mark.parametrize(
    "query, version",
    [
        (b"", None),
        (b"other=1", None),
        (b"version=0", 0),
        (b"version=007", 7),
        (b"version=9007199254740991", 2**53 - 1),
        (b"version=" + b"0" * 5000 + b"3", 3),
    ],
)
def test_a_version_is_digits(query: bytes, version: int | None) -> None:
    command = posted(b"", query)
    assert isinstance(command, AppendRecords)
    assert command.version == version


@pytest.mark.parametrize(
    "value",
    [
        *(b"3abc", b"", b"-1", b"+1", b"1.0", b"0x1", b"9007199254740992", b"1&version=2"),
        *("٣".encode(), b"%31%00", b"9" * 5000, b"null", b" 1"),
    ],
)
def test_a_version_that_is_not_is_refused(value: bytes) -> None:
    refusal = posted(b"", b"version=" + value)
    assert isinstance(refusal, Refused)
    assert (refusal.code, refusal.field) == (Code.INVALID_QUERY, "version")


def test_a_producer_is_named_as_at_the_main_door() -> None:
    batch = {b"producer-id": b"p", b"producer-epoch": b"2", b"producer-seq": b"3"}
    command = posted(b'{"records":[1]}', b"", batch)
    assert isinstance(command, AppendRecords)
    assert command.claim == Claim("p", 2, 3)
    for body, headers in (
        (b'{"records":[1]}', {b"producer-id": b"p"}),
        (b'{"records":[1]}', {b"producer-id": b"p", b"producer-epoch": b"next"}),
        (b"{}", batch),
    ):
        refusal = posted(body, b"", headers)
        assert isinstance(refusal, Refused)
        assert refusal.code is Code.INVALID_HEADER


@pytest.mark.parametrize(
    "query, wanted",
    [
        (b"", Wanted(None, 10, 30.0)),
        (b"offset=", Wanted(None, 10, 30.0)),
        (b"timeout_sec=0", Wanted(None, 10, 0.0)),
        (b"offset=-", Wanted(ZERO, 10, 0.0)),
        (b"offset=" + OFFSET.encode(), Wanted(Position(1_700_000_000_000, 42), 10, 0.0)),
        (b"offset=-&limit=10000&timeout_sec=60.0", Wanted(ZERO, 10_000, 60.0)),
        (b"offset=-&limit=1&timeout_sec=0.30000000000000004", Wanted(ZERO, 1, 0.1 + 0.2)),
        (b"offset=-&timeout_sec=5e-05&x=y", Wanted(ZERO, 10, 0.00005)),
    ],
)
def test_what_a_reader_asks_for(query: bytes, wanted: Wanted) -> None:
    assert parse_read(query) == wanted


@pytest.mark.parametrize(
    "query, field",
    [
        *((b"limit=" + value, "limit") for value in (b"0", b"10001", b"abc", b"", b"-1", b"1.5")),
        *(
            (b"timeout_sec=" + value, "timeout_sec")
            for value in (b"60.1", b"-1", b"x", b"", b"nan", b"inf", b"1e99", b"1_0", b"6e1e1")
        ),
        *(
            (b"offset=" + value, "offset")
            for value in (b"1", b"--", b"now", b"-1", b"0" * 31, b"0" * 33, b"x" * 32)
        ),
        (b"offset=0001700000000000_0000000000000042", "offset"),
        (b"offset=-&offset=-", "offset"),
        (b"limit=1&limit=1", "limit"),
        (b"\xff=1", "query"),
    ],
)
def test_what_a_reader_cannot_ask_for(query: bytes, field: str) -> None:
    refusal = parse_read(query)
    assert isinstance(refusal, Refused), refusal
    assert (refusal.code.status, refusal.field) == (400, field)


def test_offsets_have_32_digits_and_sort_as_text() -> None:
    assert offset_text(1_700_000_000_000, 42) == OFFSET
    answer = json.loads(render_offsets(1_700_000_000_000, range(9, 12)))["offsets"]
    assert [text[16:] for text in answer] == ["9".zfill(16), "10".zfill(16), "11".zfill(16)]
    assert answer == sorted(answer)
    assert {len(text) for text in answer} == {32}
    assert json.loads(render_offsets(0, ())) == {"offsets": []}


def test_records_are_told_with_offset_and_original_bytes() -> None:
    answer = render_records([(5, 1, b"1.0"), (5, 2, b'{"a": 1}')])
    assert b'"data":1.0}' in answer
    assert b'"data":{"a": 1}}' in answer
    assert json.loads(answer)["records"][1] == {"offset": offset_text(5, 2), "data": {"a": 1}}
    assert render_records(()) == b'{"records":[]}'
