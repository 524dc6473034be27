import pytest

from millstream.cli import messages

JSON = "application/json"


def test_json_values_keep_their_original_bytes() -> None:
    body = b'[1.0, 12345678901234567890,{"b":1,"a":2,"b":3}]'
    assert messages.values(body) == [b"1.0", b"12345678901234567890", b'{"b":1,"a":2,"b":3}']


def test_a_value_over_several_lines_is_printed_on_one() -> None:
    assert messages.lines(JSON, b'[{\n "a": 1.0,\n "b": "x y"}]') == b'{"a":1.0,"b":"x y"}\n'


def test_an_empty_page_prints_nothing() -> None:
    assert messages.lines(JSON, b"") == b""
    assert messages.lines(JSON, b"[]") == b""


def test_bytes_are_printed_as_they_are() -> None:
    assert messages.lines("application/octet-stream", b"\x00\n\xff") == b"\x00\n\xff"


@pytest.mark.parametrize(
    "content_type,body,expected",
    [
        (JSON, b"[1,[2]]", {"messages": [1, [2]]}),
        ("application/json; charset=utf-8", b"[1]", {"messages": [1]}),
        ("text/plain", "ü".encode(), {"text": "ü"}),
        ("text/plain", b"\xff", {"base64": "/w=="}),
        ("application/octet-stream", b"ab", {"base64": "YWI="}),
    ],
)
def test_the_json_form_fits_the_type(content_type: str, body: bytes, expected: object) -> None:
    assert messages.described(content_type, body) == expected
