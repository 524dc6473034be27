from typing import Any

import msgspec
import pytest

from millstream.client import errors
from millstream.client.core import requests
from millstream.client.core.answers import (
    RETRY_AFTER_S_MAX,
    Answer,
    is_done_before,
    refusal,
    retry_after_s,
)
from millstream.client.core.requests import Creation, Request, Stamp

URL = "http://h.test/v1/stream/a"
READ = requests.read(URL, "-1")
APPEND = requests.append(URL, "text/plain", b"payload")
SEQUENCED = requests.append(URL, "text/plain", b"payload", seq="1")
STAMPED = requests.append(URL, "text/plain", b"payload", stamp=Stamp("p", 1, 5))
CREATE = requests.create(URL, Creation())
GRANT = requests.grant(URL, "p")


def problem(status: int, code: str, **headers: str) -> Answer:
    body = msgspec.json.encode({"code": code, "detail": "the rule", "title": "T", "status": status})
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, {"content-type": "application/problem+json", **fields}, body)


@pytest.mark.parametrize("status", [200, 201, 204])
def test_what_was_done_is_no_error(status: int) -> None:
    assert refusal(APPEND, Answer(status, {})) is None


@pytest.mark.parametrize(
    "request_,answer,kind",
    [
        (READ, Answer(400, {}), errors.BadOffset),
        (READ, problem(400, "invalid_offset"), errors.BadOffset),
        (READ, problem(400, "invalid_query"), errors.BadRequest),
        (APPEND, Answer(400, {}), errors.BadRequest),
        (GRANT, Answer(400, {}), errors.BadRequest),
        (READ, Answer(401, {}), errors.Unauthorized),
        (READ, Answer(403, {}), errors.Forbidden),
        (STAMPED, Answer(403, {"producer-epoch": "4"}), errors.ProducerFenced),
        (READ, Answer(404, {}), errors.NotFound),
        (READ, Answer(405, {}), errors.BadRequest),
        (READ, Answer(408, {}), errors.Timeout),
        (CREATE, Answer(409, {}), errors.CreateConflict),
        (CREATE, Answer(409, {"stream-closed": "true"}), errors.CreateConflict),
        (CREATE, problem(409, "source_gone"), errors.StreamGone),
        (APPEND, Answer(409, {"stream-closed": "true"}), errors.StreamClosed),
        (STAMPED, Answer(409, {"producer-expected-seq": "2"}), errors.Gap),
        (APPEND, problem(409, "content_type_mismatch"), errors.ContentTypeMismatch),
        (APPEND, Answer(409, {}, b"Content-Type mismatch"), errors.ContentTypeMismatch),
        (SEQUENCED, Answer(409, {}, b"Sequence conflict"), errors.SequenceConflict),
        (APPEND, problem(409, "sequence_conflict"), errors.SequenceConflict),
        (APPEND, Answer(409, {}), errors.Conflict),
        (READ, Answer(410, {}), errors.StreamGone),
        (READ, problem(410, "offset_gone"), errors.OffsetGone),
        (APPEND, Answer(412, {}), errors.OffsetConflict),
        (APPEND, Answer(413, {}), errors.MessageTooLarge),
        (APPEND, Answer(415, {}), errors.BadRequest),
        (READ, Answer(429, {}), errors.RateLimited),
        (READ, Answer(500, {}), errors.Unavailable),
        (READ, Answer(304, {}), errors.BadRequest),
        (APPEND, Answer(307, {"location": "http://o.test/"}), errors.BadRequest),
    ],
)
def test_a_refusal_becomes_the_error_that_says_what_to_do(
    request_: Request, answer: Answer, kind: type[errors.ClientError]
) -> None:
    error = refusal(request_, answer)
    assert type(error) is kind
    assert error is not None
    assert error.status == answer.status
    assert error.url == URL


def test_a_closed_stream_is_never_taken_for_a_gap() -> None:
    both = Answer(409, {"stream-closed": "TRUE", "producer-expected-seq": "0"})
    assert type(refusal(STAMPED, both)) is errors.StreamClosed


def test_facts_of_the_refusal_are_kept() -> None:
    fenced = refusal(STAMPED, Answer(403, {"producer-epoch": "4"}))
    assert isinstance(fenced, errors.ProducerFenced)
    assert fenced.current_epoch == 4
    gap = refusal(
        STAMPED, Answer(409, {"producer-expected-seq": "2", "producer-received-seq": "5"})
    )
    assert isinstance(gap, errors.Gap)
    assert (gap.expected_seq, gap.received_seq) == (2, 5)
    moved = refusal(APPEND, problem(412, "offset_mismatch", stream_next_offset="1_1"))
    assert isinstance(moved, errors.OffsetConflict)
    assert (moved.next_offset, moved.code, moved.detail) == ("1_1", "offset_mismatch", "the rule")


def test_a_server_that_grants_no_epochs_is_named_as_the_reason() -> None:
    assert "declare the epoch" in str(refusal(GRANT, Answer(400, {})))


@pytest.mark.parametrize(
    "request_,answer,is_uncertain",
    [
        (READ, Answer(500, {}), False),
        (APPEND, Answer(500, {}), True),
        (APPEND, Answer(503, {}), True),
        (APPEND, problem(503, "storage_failed"), True),
        (APPEND, problem(503, "overloaded"), False),
        (APPEND, problem(503, "log_full"), False),
        (APPEND, problem(503, "stopping"), False),
        (APPEND, problem(500, "stopping"), True),
        (APPEND, Answer(429, {}), False),
        (APPEND, Answer(408, {}), False),
    ],
)
def test_only_a_write_that_may_have_happened_is_uncertain(
    request_: Request, answer: Answer, is_uncertain: bool
) -> None:
    error = refusal(request_, answer)
    assert isinstance(error, errors.RetryError)
    assert error.is_uncertain is is_uncertain


@pytest.mark.parametrize(
    "content_type,body",
    [
        ("text/html", b"<p>payload token=abc</p>"),
        ("application/problem+json", b"payload, not JSON"),
        ("application/problem+json", b'{"code": 7}'),
        ("application/problem+json", b'["\xff"]'),
    ],
)
def test_a_body_that_is_no_problem_document_is_not_shown(content_type: str, body: bytes) -> None:
    error = refusal(APPEND, Answer(500, {"content-type": content_type}, body))
    assert error is not None
    assert (error.code, error.detail) == (None, None)
    assert "payload" not in f"{error} {error!r} {error.__dict__}"


def test_a_long_detail_is_cut() -> None:
    body = msgspec.json.encode({"code": "x", "detail": "d" * 10_000})
    error = refusal(APPEND, Answer(400, {"content-type": "application/problem+json"}, body))
    assert error is not None
    assert len(error.detail or "") == 300


@pytest.mark.parametrize(
    "value,date,seconds",
    [
        (None, None, None),
        ("3", None, 3.0),
        (" 0 ", None, 0.0),
        ("99999999999", None, RETRY_AFTER_S_MAX),
        ("-1", None, None),
        ("soon", None, None),
        ("٣", None, None),
        ("Sun, 06 Nov 1994 08:49:47 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", 10.0),
        ("Sun, 06 Nov 1994 08:49:07 GMT", "Sun, 06 Nov 1994 08:49:37 GMT", 0.0),
        ("Sun, 06 Nov 1994 08:49:47 GMT", None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_by_the_servers_clock(
    value: str | None, date: str | None, seconds: float | None
) -> None:
    assert retry_after_s(value, date) == seconds


def test_the_error_says_how_long_the_server_asks_to_wait() -> None:
    error = refusal(READ, Answer(429, {"retry-after": "7"}))
    assert isinstance(error, errors.RateLimited)
    assert error.retry_after_s == 7.0


def test_a_repeated_delete_that_finds_nothing_was_done_before() -> None:
    assert is_done_before(requests.delete(URL), Answer(404, {}))
    assert is_done_before(requests.delete(URL), Answer(410, {}))
    assert not is_done_before(requests.delete(URL), Answer(403, {}))
    assert not is_done_before(requests.head(URL), Answer(404, {}))


@pytest.mark.parametrize("text", ["", "-1", "1.0", "x", "٣"])
def test_a_header_that_should_be_a_number_and_is_not_counts_as_missing(text: str) -> None:
    headers: dict[str, Any] = {"producer-epoch": text, "producer-seq": text}
    assert (Answer(200, headers).epoch, Answer(200, headers).seq) == (None, None)
    assert Answer(200, {"producer-epoch": "4", "producer-seq": "0"}).seq == 0
