from array import array

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.streams.commands import EMPTY, Body
from millstream.wire.bodies import bytes_body, json_body


def values(body: Body | Refused) -> list[bytes]:
    assert isinstance(body, Body)
    if body.count <= 1:
        return [body.data] * body.count
    found, at = [], 0
    for length in array("I", body.lengths):
        found.append(body.data[at : at + length])
        at += length + 1
    return found


def test_bytes_are_one_message_or_none() -> None:
    assert bytes_body(b"[1,2]") == Body(b"[1,2]", 1)
    assert bytes_body(b"") is EMPTY


@pytest.mark.parametrize(
    "body, messages",
    [
        (b"1.0", [b"1.0"]),
        (b' {"b":1,"a":1,"a":2} ', [b'{"b":1,"a":1,"a":2}']),
        (b"[12345678901234567890]", [b"12345678901234567890"]),
        (b' [ 1 , "a,b" , [2, 3] ] ', [b"1", b'"a,b"', b"[2, 3]"]),
        (b"[[]]", [b"[]"]),
        (b"[null,true]", [b"null", b"true"]),
    ],
)
def test_json_is_cut_one_level_deep_and_keeps_its_bytes(body: bytes, messages: list[bytes]) -> None:
    assert values(json_body(body, may_be_empty=False)) == messages


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"[", b"[1,]", b"NaN", b"[Infinity]", b"01", b"1 2", b"'a'", b"\xef\xbb\xbf1"),
        *(b'"\xff"', b'"\x01"', b"[" * 100_000, b'{"a":' * 100_000, b'"\\ud800"', b"tru"),
    ],
)
def test_what_is_not_json_is_refused(body: bytes) -> None:
    refusal = json_body(body, may_be_empty=True)
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.INVALID_JSON


def test_an_empty_array_is_allowed_only_where_it_makes_sense() -> None:
    assert json_body(b"[ ]", may_be_empty=True) is EMPTY
    refusal = json_body(b"[]", may_be_empty=False)
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.EMPTY_BODY


@pytest.mark.parametrize("body", [b" [1,22]", b"[1,22] ", b"[ 1,22]", b"[1 ,22]", b"[1, 22]"])
def test_white_space_between_values_is_all_that_is_dropped(body: bytes) -> None:
    assert json_body(body, may_be_empty=False) == json_body(b"[1,22]", may_be_empty=False)


def test_white_space_inside_values_stays_where_it_was() -> None:
    found = json_body(b'[[1, 2],{"a" : 1}]', may_be_empty=False)
    assert isinstance(found, Body)
    assert found.data == b'[1, 2],{"a" : 1}'
    assert list(memoryview(found.lengths).cast("I")) == [6, 9]


@pytest.mark.parametrize(
    "body", [b"{}", b'{"a" : [1, "}"]}', b'""', '"ä\\""'.encode(), b'{"a":{}}']
)
def test_a_value_without_white_space_around_it_is_kept_as_it_came(body: bytes) -> None:
    found = json_body(body, may_be_empty=False)
    assert isinstance(found, Body)
    assert found.data is body
    assert (found.count, found.lengths) == (1, b"")


@pytest.mark.parametrize(
    "body",
    [
        *(b'"', b"{", b'{"', b'"}', b"{}{}", b"{} {}", b'"a""b"', b'"a","b"', b'{"a":1},{"b":2}'),
        *(b'{"a":1}}', b'{"a":}', b"{a}", b'"\n"', b'{"a":"\xff"}', b'"\\"', b'{]"', b'{"a"}'),
    ],
)
def test_what_only_begins_and_ends_like_one_value_is_refused(body: bytes) -> None:
    refusal = json_body(body, may_be_empty=True)
    assert isinstance(refusal, Refused)
    assert refusal.code is Code.INVALID_JSON


@pytest.mark.parametrize("body", [b" {}", b"{}\n", b'\t"a" ', b"\r\n{}\r\n"])
def test_a_value_with_white_space_around_it_loses_only_that(body: bytes) -> None:
    assert json_body(body, may_be_empty=False) == Body(body.strip(), 1)
