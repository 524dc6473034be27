import pytest

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO, Position
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Added, Append, Duplicate, Granted, GrantEpoch
from millstream.wire.append import (
    Terms,
    added_lines,
    fill,
    parse,
    parse_claim,
    parse_if_match,
    parse_terms,
    render_answer,
)

TEXT = {b"content-type": b"text/plain"}
CLAIM = {b"producer-id": b"p", b"producer-epoch": b"1", b"producer-seq": b"2"}


def refused(value: object) -> Refused:
    assert isinstance(value, Refused)
    return value


def test_a_plain_append_has_only_a_body() -> None:
    command = parse("a", TEXT, b"x")
    assert isinstance(command, Append)
    assert (command.path, command.content_type, command.is_closing) == ("a", "text/plain", False)
    assert (command.claim, command.stream_seq, command.if_match) == (None, None, None)


def test_every_header_finds_its_place() -> None:
    headers = {
        **TEXT,
        **CLAIM,
        b"stream-seq": b"09",
        b"stream-closed": b"TRUE",
        b"if-match": ZERO.text().encode(),
    }
    command = parse("a", headers, b"x")
    assert isinstance(command, Append)
    assert command.claim == Claim("p", 1, 2)
    assert (command.stream_seq, command.is_closing, command.if_match) == ("09", True, ZERO)


def test_only_a_close_comes_without_a_body() -> None:
    assert refused(parse("a", TEXT, b"")).code is Code.EMPTY_BODY
    command = parse("a", {b"stream-closed": b"true"}, b"")
    assert isinstance(command, Append)
    assert command.is_closing


def test_a_body_needs_a_content_type() -> None:
    assert refused(parse("a", {}, b"x")).field == "Content-Type"


def test_bad_json_is_found_but_judged_later() -> None:
    # A duplicate is a duplicate even if its body is broken by now.
    command = parse("a", {b"content-type": b"application/json"}, b"{")
    assert isinstance(command, Append)
    assert isinstance(command.body, Refused)


@pytest.mark.parametrize("missing", list(CLAIM))
def test_producer_headers_come_together(missing: bytes) -> None:
    rest = {name: value for name, value in CLAIM.items() if name != missing}
    assert refused(parse_claim(rest)).code is Code.INVALID_HEADER
    assert refused(parse("a", {**TEXT, **rest}, b"x")).code is Code.INVALID_HEADER


@pytest.mark.parametrize("name", list(CLAIM))
def test_an_empty_producer_header_is_not_an_absent_one(name: bytes) -> None:
    assert isinstance(parse_claim({**CLAIM, name: b""}), Refused)


@pytest.mark.parametrize("form", [b"%b", b'"%b"'])
def test_if_match_is_an_offset_bare_or_quoted(form: bytes) -> None:
    assert parse_if_match(form % b"0000000000000007_0000000000000003") == Position(7, 3)


def test_if_match_star_expects_nothing() -> None:
    assert parse_if_match(b"*") is None
    assert isinstance(parse_if_match(b"W/x"), Refused)


def test_an_append_is_204_and_a_producers_200() -> None:
    plain = render_answer(Added(1, Position(5, 1), False, None, 1), None)
    assert (plain.status, dict(plain.headers)[b"stream-next-offset"]) == (
        204,
        b"0000000000000005_0000000000000001",
    )
    claimed = render_answer(Added(1, Position(5, 1), True, Claim("p", 1, 2), 1), None)
    assert claimed.status == 200
    assert (b"producer-seq", b"2") in claimed.headers
    assert (b"stream-closed", b"true") in claimed.headers


def test_a_duplicate_tells_its_own_offset_and_the_newest_sequence() -> None:
    answer = render_answer(Duplicate(1, 3, Claim("p", 1, 2), 9, is_closed=False), "offset")
    assert answer.status == 204
    assert (b"stream-next-offset", b"offset") in answer.headers
    assert (b"producer-seq", b"9") in answer.headers


def test_terms_say_all_that_the_header_fields_say() -> None:
    assert parse_terms({}) == Terms(None, False, False, None, None, None)
    headers = {**CLAIM, b"content-type": b"Application/JSON; a=b", b"stream-closed": b"true"}
    headers |= {b"stream-seq": b"09", b"if-match": ZERO.text().encode()}
    terms = parse_terms(headers)
    assert isinstance(terms, Terms)
    assert (terms.is_json, terms.is_closing, terms.stream_seq) == (True, True, "09")
    assert (terms.claim, terms.if_match) == (Claim("p", 1, 2), ZERO)


@pytest.mark.parametrize(
    "headers",
    [{b"producer-id": b"p"}, {**CLAIM, b"producer-seq": b"x"}, {b"if-match": b"x"}],
)
def test_terms_that_cannot_be_are_refused_before_any_body(headers: dict[bytes, bytes]) -> None:
    assert parse_terms(headers) == parse("a", headers, b"") == parse("a", headers, b"x")
    assert refused(parse_terms(headers)).code is Code.INVALID_HEADER


def test_the_same_terms_are_filled_again_and_again() -> None:
    terms = parse_terms({**TEXT, b"stream-closed": b"true"})
    assert isinstance(terms, Terms)
    for path, body in (("a", b"x"), ("b", b""), ("a", b"y")):
        assert fill(path, terms, body) == parse(path, {**TEXT, b"stream-closed": b"true"}, body)


def test_a_close_without_a_message_has_no_content_type_to_compare() -> None:
    command = parse("a", {b"content-type": b"text/html", b"stream-closed": b"true"}, b"")
    assert isinstance(command, Append)
    assert command.content_type is None


@pytest.mark.parametrize("tail", [ZERO, Position(5, 1), Position(10**15, 10**16 - 1)])
def test_the_plainest_answer_has_the_lines_of_the_rendered_one(tail: Position) -> None:
    added = Added(1, tail, False, None, 1)
    rendered = render_answer(added, None)
    assert added_lines(added) == b"".join(b"%b: %b\r\n" % pair for pair in rendered.headers)
    assert (rendered.status, rendered.body) == (204, b"")


GRANT = {b"producer-id": b"p", b"producer-epoch": b"next"}


def test_an_epoch_is_asked_for_without_anything_else() -> None:
    assert parse("a", GRANT, b"") == GrantEpoch("a", "p")


@pytest.mark.parametrize(
    "more",
    [
        {b"producer-seq": b"0"},
        {b"stream-closed": b"true"},
        {b"stream-seq": b"1"},
        {b"if-match": b"*"},
        {b"producer-id": b""},
    ],
)
def test_what_goes_beyond_asking_is_refused(more: dict[bytes, bytes]) -> None:
    assert refused(parse("a", {**GRANT, **more}, b"")).code is Code.INVALID_HEADER


def test_asking_takes_no_body() -> None:
    assert refused(parse("a", {**GRANT, **TEXT}, b"x")).code is Code.INVALID_HEADER


def test_a_granted_epoch_is_a_204_with_the_tail() -> None:
    rendered = render_answer(Granted(3, Position(5, 1)), None)
    assert (rendered.status, rendered.body) == (204, b"")
    assert dict(rendered.headers) == {
        b"producer-epoch": b"3",
        b"stream-next-offset": b"0000000000000005_0000000000000001",
    }
