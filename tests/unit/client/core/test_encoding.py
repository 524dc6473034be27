from typing import Any

import msgspec
import pytest

from millstream.client.core.encoding import Raw, body, encode
from millstream.client.errors import BadMessage

JSON = "application/json; charset=utf-8"
OCTETS = "application/octet-stream"


@pytest.mark.parametrize(
    "message, expected",
    [
        ({"b": 1, "a": [None, True]}, b'{"b":1,"a":[null,true]}'),
        ("text", b'"text"'),
        ("é", '"é"'.encode()),
        (None, b"null"),
        ([], b"[]"),
        (2**70, b"1180591620717411303424"),
        (Raw("1.0"), b"1.0"),
        (Raw(b' {"a":1,"a":2}\n'), b'{"a":1,"a":2}'),
        (Raw("[1,2]"), b"[1,2]"),
        (msgspec.Raw(b"3"), b"3"),
    ],
)
def test_a_json_message_is_one_value(message: Any, expected: bytes) -> None:
    assert encode(message, JSON) == expected


@pytest.mark.parametrize(
    "message",
    [
        Raw("1,2"),
        Raw("1 2"),
        Raw(""),
        Raw("[1"),
        Raw("NaN"),
        Raw(b'"\xff"'),
        Raw('"\\ud800"'),
        Raw("[" * 5000 + "]" * 5000),
        msgspec.Raw(b"1,2"),
        "\ud800",
        object(),
        {1, object()},
        b"1",
        bytearray(b"1"),
        memoryview(b"1"),
    ],
)
def test_what_is_not_one_json_value_is_refused_alone(message: Any) -> None:
    with pytest.raises(BadMessage):
        encode(message, JSON)


@pytest.mark.parametrize(
    "message, expected",
    [
        (b"\x00\xff", b"\x00\xff"),
        (bytearray(b"x"), b"x"),
        (memoryview(b"xyz")[1:], b"yz"),
        ("é", "é".encode()),
        (Raw("1,2"), b"1,2"),
        (Raw(b"\xff"), b"\xff"),
        (b"", b""),
    ],
)
def test_other_streams_take_bytes_and_text(message: Any, expected: bytes) -> None:
    assert encode(message, OCTETS) == expected


@pytest.mark.parametrize("message", [1, None, {"a": 1}, ["x"], "\udcff"])
def test_other_streams_take_nothing_else(message: Any) -> None:
    with pytest.raises(BadMessage):
        encode(message, OCTETS)


def test_an_error_does_not_quote_the_message() -> None:
    with pytest.raises(BadMessage) as caught:
        encode(Raw("secret"), JSON)
    assert "secret" not in repr(caught.value)
    assert caught.value.__cause__ is None


def test_a_json_body_is_an_array_and_another_body_is_joined() -> None:
    assert body([b"1", b"[2]"], JSON) == b"[1,[2]]"
    assert body([b"1"], JSON) == b"[1]"
    assert body([b"a", b"b"], OCTETS) == b"ab"
