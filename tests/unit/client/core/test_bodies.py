import pytest

from millstream.client.core import bodies
from millstream.client.errors import ParseError

URL = "http://h.test/a"
DAMAGED = [b"[1,2", b"[1,2}", b'["a', b"[1,]", b"[NaN]", b'["\xff"]', b"[" * 100_000, b"x"]


def test_json_is_known_by_its_type_whatever_the_parameters() -> None:
    assert bodies.is_json("Application/JSON; charset=utf-8")
    assert not bodies.is_json("application/jsonl")
    assert not bodies.is_json(None)


@pytest.mark.parametrize("body", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_body_is_a_parse_error_that_quotes_nothing(body: bytes) -> None:
    with pytest.raises(ParseError) as caught:
        bodies.values(body, URL)
    assert caught.value.__cause__ is None
    assert str(caught.value).startswith("the answer is not whole JSON")


@pytest.mark.parametrize("body", [b"[1,2", b"[1,2}", b'["a', b"[1,]", b"[NaN]", b"x"])
def test_the_check_sees_damage_without_making_objects(body: bytes) -> None:
    with pytest.raises(ParseError):
        bodies.check(body, URL)
    bodies.check(b'[1,{"a":[2]}]', URL)


def test_values_are_the_messages_and_a_bare_value_is_one() -> None:
    assert bodies.values(b'[1,[2],{"a":null}]', URL) == [1, [2], {"a": None}]
    assert bodies.values(b"7", URL) == [7]
    assert bodies.values(b"", URL) == []


def test_half_a_surrogate_pair_of_another_server_can_still_be_read() -> None:
    body = b'["\\ud800"]'
    bodies.check(body, URL)
    assert bodies.values(body, URL) == ["\ud800"]


def test_bodies_are_joined_without_touching_the_values() -> None:
    parts = [b"[1.0, 2]\n", b"[]", b'\n[{"a":1,"a":2}]', b"3"]
    assert bodies.joined(parts, URL) == b'[1.0, 2,{"a":1,"a":2},3]'
    assert bodies.joined([], URL) == b"[]"


def test_two_halves_do_not_make_a_whole() -> None:
    with pytest.raises(ParseError):
        bodies.joined([b"[1", b"2]"], URL)


def test_a_body_without_messages_is_blank() -> None:
    assert bodies.is_blank(b"")
    assert bodies.is_blank(b" [\n] ")
    assert not bodies.is_blank(b"[0]")
    assert not bodies.is_blank(b"[" + b" " * 100 + b"]0")
