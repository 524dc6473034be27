import base64

import pytest

from millstream.wire.sse import base64_event, control_event, json_event, text_event


@pytest.mark.parametrize(
    "payload, lines",
    [
        (b"a", [b"data:a"]),
        (b" a", [b"data:  a"]),
        (b"", [b"data:"]),
        (b"a\nb", [b"data:a", b"data:b"]),
        (b"a\r\nb\rc", [b"data:a", b"data:b", b"data:c"]),
        (b"a\n b\n", [b"data:a", b"data:  b", b"data:"]),
        (b"\r\r", [b"data:", b"data:", b"data:"]),
        ("\u2028\u0085\x0b".encode(), ["data:\u2028\u0085\x0b".encode()]),
    ],
)
def test_every_line_end_makes_a_line_of_the_event(payload: bytes, lines: list[bytes]) -> None:
    assert text_event((payload,)) == b"event: data\n" + b"\n".join(lines) + b"\n\n"


def test_a_line_end_may_be_split_over_two_messages() -> None:
    assert text_event((b"a\r", b"\nb")) == b"event: data\ndata:a\ndata:b\n\n"


def test_json_values_travel_as_one_array() -> None:
    assert json_event((b"1", b'{"a":2}')) == b'event: data\ndata:[1,{"a":2}]\n\n'


def test_bytes_travel_as_padded_base64() -> None:
    data = bytes(range(256))
    line = base64_event((data[:100], data[100:])).split(b"\n")[1]
    assert base64.b64decode(line.removeprefix(b"data:"), validate=True) == data


def test_a_control_event_tells_where_the_reader_is() -> None:
    behind = control_event("o", 7, is_current=False, is_closed=False)
    assert behind == b'event: control\ndata:{"streamNextOffset":"o","streamCursor":"7"}\n\n'
    assert b'"upToDate":true' in control_event("o", 7, is_current=True, is_closed=False)


def test_a_closing_control_event_has_no_cursor() -> None:
    closing = control_event("o", None, is_current=True, is_closed=True)
    assert b'"streamClosed":true' in closing
    assert b"streamCursor" not in closing
