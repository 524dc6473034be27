import pytest

from millstream.core.errors import Refused
from millstream.wire import fields

BIG = str(2**53 - 1).encode()


@pytest.mark.parametrize("raw, value", [(b"0", 0), (b"60", 60), (BIG, 2**53 - 1)])
def test_a_plain_integer_is_digits_without_leading_zeros(raw: bytes, value: int) -> None:
    assert fields.plain_integer(raw, "X") == value


@pytest.mark.parametrize(
    "raw", [b"", b"00", b"01", b"+1", b"-1", b"1.0", b"1e3", b" 1", b"1_0", b"\xd9\xa1", b"1\n"]
)
def test_anything_else_is_no_plain_integer(raw: bytes) -> None:
    refusal = fields.plain_integer(raw, "Stream-TTL")
    assert isinstance(refusal, Refused)
    assert refusal.field == "Stream-TTL"


@pytest.mark.parametrize("raw", [b"%d" % 2**53, b"9" * 17, b"9" * 6000])
def test_numbers_beyond_2_to_53_are_refused(raw: bytes) -> None:
    assert isinstance(fields.plain_integer(raw, "X"), Refused)
    assert isinstance(fields.counter(raw, "X"), Refused)


@pytest.mark.parametrize(
    "raw, value", [(b"007", 7), (b"0" * 6000, 0), (b"0" * 6000 + BIG, 2**53 - 1)]
)
def test_a_counter_may_have_any_number_of_zeros_in_front(raw: bytes, value: int) -> None:
    assert fields.counter(raw, "X") == value


def test_text_is_utf_8_and_neither_empty_nor_long() -> None:
    assert fields.text("\u00e9".encode(), "X") == "\u00e9"
    for raw in (b"", b"\xff", b"a" * 1025):
        assert isinstance(fields.text(raw, "X"), Refused)


@pytest.mark.parametrize(
    "raw, is_true", [(b"TRUE", True), (b"true", True), (b"1", False), (None, False)]
)
def test_a_flag_is_true_in_any_case(raw: bytes | None, is_true: bool) -> None:
    assert fields.is_true(raw) is is_true


@pytest.mark.parametrize(
    "raw", [None, b"", b"text", b"text/", b"/plain", b"t\xe9xt/plain", b"a b/c"]
)
def test_what_is_no_media_type_counts_as_none(raw: bytes | None) -> None:
    assert fields.media_type(raw) is None


def test_a_media_type_is_kept_as_it_was_sent() -> None:
    assert fields.media_type(b"Text/Plain; Charset=UTF-8") == "Text/Plain; Charset=UTF-8"


@pytest.mark.parametrize(
    "text, time_ms",
    [
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01t01:00:00.5+01:00", 500),
        ("2024-02-29T12:00:00.123999Z", 1_709_208_000_123),
        ("1969-12-31T00:00:00Z", 0),
        ("9999-12-31T23:59:59.999999Z", 253_402_300_799_999),
        ("9999-12-31T23:59:59-23:59", 253_402_300_799_999),
    ],
)
def test_an_rfc_3339_time_is_milliseconds_rounded_down(text: str, time_ms: int) -> None:
    assert fields.rfc3339_ms(text) == time_ms
    assert fields.rfc3339_ms(fields.rfc3339(time_ms)) == time_ms


@pytest.mark.parametrize(
    "text",
    [
        "",
        "now",
        "2024-01-01",
        "2024-01-01T00:00:00",
        "2023-02-29T00:00:00Z",
        "2024-01-01 00:00:00Z",
    ],
)
def test_other_times_are_none(text: str) -> None:
    assert fields.rfc3339_ms(text) is None


def test_a_time_beyond_the_calendar_is_printed_as_its_end() -> None:
    assert fields.rfc3339(10**18) == "9999-12-31T23:59:59.999Z"


def test_a_query_keeps_blanks_repeats_and_pluses() -> None:
    assert fields.query_values(b"a=&a=1+2&%62=%20&c") == {"a": ["", "1+2"], "b": [" "], "c": [""]}
    assert isinstance(fields.query_values(b"a=%ff"), Refused)


def test_a_parameter_is_given_once_or_not_at_all() -> None:
    assert fields.single({}, "a") is None
    assert fields.single({"a": ["x"]}, "a") == "x"
    refusal = fields.single({"a": ["x", "x"]}, "a")
    assert isinstance(refusal, Refused)
    assert refusal.field == "a"
