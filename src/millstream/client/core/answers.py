"""What an answer means: facts read from headers, and the error that a refusal becomes."""

from __future__ import annotations

import email.utils
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from millstream.client.core.requests import Operation, Request
from millstream.client.errors import (
    BadOffset,
    BadRequest,
    ClientError,
    Conflict,
    ContentTypeMismatch,
    CreateConflict,
    Forbidden,
    Gap,
    MessageTooLarge,
    NotFound,
    OffsetConflict,
    OffsetGone,
    ProducerFenced,
    RateLimited,
    SequenceConflict,
    StreamClosed,
    StreamGone,
    Timeout,
    Unauthorized,
    Unavailable,
)

DETAIL_CHARS_MAX: Final = 300
# No server means it when it asks for more; a reader would look dead.
RETRY_AFTER_S_MAX: Final = 300.0
# With these codes of ours a 503 was answered before the command was looked at.
NOT_TAKEN_CODES: Final = frozenset({"overloaded", "log_full", "stopping"})


class Answer(msgspec.Struct, frozen=True):
    """A whole answer. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def is_ok(self) -> bool:
        """Whether the server did what it was asked."""
        return 200 <= self.status < 300

    @property
    def next_offset(self) -> str | None:
        """Where the stream, or the page, ends."""
        return self.headers.get("stream-next-offset")

    @property
    def is_up_to_date(self) -> bool:
        """Whether the page reaches the tail of this moment."""
        return self._is_true("stream-up-to-date")

    @property
    def is_closed(self) -> bool:
        """Whether the page reaches the end of a closed stream, or the append closed it."""
        return self._is_true("stream-closed")

    @property
    def cursor(self) -> str | None:
        """What to echo in the next live read, for caches."""
        return self.headers.get("stream-cursor")

    @property
    def content_type(self) -> str | None:
        """Content type of the body, verbatim."""
        return self.headers.get("content-type")

    @property
    def epoch(self) -> int | None:
        """The producer's epoch as the server knows it."""
        return self._number("producer-epoch")

    @property
    def seq(self) -> int | None:
        """The newest sequence of the producer that the server has."""
        return self._number("producer-seq")

    @property
    def expected_seq(self) -> int | None:
        """The sequence that the server waits for; only with a gap."""
        return self._number("producer-expected-seq")

    @property
    def received_seq(self) -> int | None:
        """The sequence that made the gap."""
        return self._number("producer-received-seq")

    @property
    def retry_after_s(self) -> float | None:
        """How long the server asks to wait, at most RETRY_AFTER_S_MAX."""
        return retry_after_s(self.headers.get("retry-after"), self.headers.get("date"))

    def _is_true(self, name: str) -> bool:
        return self.headers.get(name, "").lower() == "true"

    def _number(self, name: str) -> int | None:
        text = self.headers.get(name, "")
        return int(text) if text.isascii() and text.isdigit() else None


class Problem(msgspec.Struct, frozen=True):
    """What we read of a problem document."""

    code: str | None = None
    detail: str | None = None
    title: str | None = None


def problem_of(answer: Answer) -> Problem:
    """Return the problem document of an answer, empty if it has none.

    Other bodies are not kept: an error page may hold anything, also what we sent.
    """
    kind = (answer.content_type or "").partition(";")[0].strip().lower()
    if kind != "application/problem+json":
        return Problem()
    try:
        return msgspec.json.decode(answer.body, type=Problem)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return Problem()


def refusal(request: Request, answer: Answer) -> ClientError | None:
    """Return the error that the answer means to this request, or None if it was done."""
    if answer.is_ok:
        return None
    problem = problem_of(answer)
    detail = problem.detail or problem.title
    facts: dict[str, Any] = {
        "url": request.url,
        "status": answer.status,
        "code": problem.code,
        "detail": detail[:DETAIL_CHARS_MAX] if detail else None,
    }
    if answer.status == 409:
        return _conflict(request, answer, facts)
    if answer.status >= 500 or answer.status in {408, 429}:
        return _later(request, answer, facts)
    match answer.status:
        case 401:
            return Unauthorized("the server wants other credentials", **facts)
        case 403 if answer.epoch is not None:
            return ProducerFenced(
                f"a newer epoch of this producer took over, it is {answer.epoch} now",
                current_epoch=answer.epoch,
                **facts,
            )
        case 403:
            return Forbidden("the credentials do not allow this", **facts)
        case 404:
            return NotFound("there is no such stream", **facts)
        case 410 if problem.code == "offset_gone":
            return OffsetGone(
                "the offset is not part of this stream", next_offset=answer.next_offset, **facts
            )
        case 410:
            return StreamGone("the stream was deleted", next_offset=answer.next_offset, **facts)
        case 412:
            return OffsetConflict(
                "the stream has moved on", next_offset=answer.next_offset, **facts
            )
        case 413:
            return MessageTooLarge("the request is larger than the server takes", **facts)
    return _wrong(request, answer, facts)


def is_done_before(request: Request, answer: Answer) -> bool:
    """Tell whether a refused *repeat* shows that an earlier try, whose answer was lost, worked."""
    return request.operation is Operation.DELETE and answer.status in {404, 410}


def _wrong(request: Request, answer: Answer, facts: dict[str, Any]) -> ClientError:
    if answer.status == 400 and request.operation is Operation.READ:
        # Other servers do not say which part of the query is wrong; only the offset can be.
        if facts["code"] in {None, "invalid_offset"}:
            return BadOffset("the server does not understand the offset", **facts)
    elif answer.status == 400 and request.operation is Operation.GRANT:
        return BadRequest("the server does not grant epochs; declare the epoch yourself", **facts)
    if answer.status < 400:
        return BadRequest("the server redirects; use the stream's own URL", **facts)
    return BadRequest("the server refused the request", **facts)


def _later(request: Request, answer: Answer, facts: dict[str, Any]) -> ClientError:
    wait_s = answer.retry_after_s
    if answer.status == 429:
        return RateLimited("the server takes no more for now", retry_after_s=wait_s, **facts)
    if answer.status == 408:
        # The server gave up on reading the request, so it cannot have acted on it.
        return Timeout("the server did not get the request in time", retry_after_s=wait_s, **facts)
    is_taken = answer.status != 503 or facts["code"] not in NOT_TAKEN_CODES
    return Unavailable(
        "the server cannot serve this now",
        retry_after_s=wait_s,
        is_uncertain=is_taken and request.method not in {"GET", "HEAD"},
        **facts,
    )


def _conflict(request: Request, answer: Answer, facts: dict[str, Any]) -> ClientError:
    if facts["code"] == "source_gone":
        return StreamGone("the stream to fork from was deleted", **facts)
    if request.operation is Operation.CREATE:
        return CreateConflict("a stream with another set-up is there", **facts)
    if answer.is_closed or facts["code"] == "stream_closed":
        return StreamClosed("the stream is closed", next_offset=answer.next_offset, **facts)
    if answer.expected_seq is not None:
        return Gap(
            f"the server waits for sequence {answer.expected_seq} of this producer",
            expected_seq=answer.expected_seq,
            received_seq=answer.received_seq,
            **facts,
        )
    if facts["code"] == "content_type_mismatch" or _speaks_of_type(answer):
        return ContentTypeMismatch("the stream has another content type", **facts)
    if facts["code"] == "sequence_conflict" or (
        facts["code"] is None and "Stream-Seq" in request.headers
    ):
        return SequenceConflict(
            "the Stream-Seq does not follow the last one", next_offset=answer.next_offset, **facts
        )
    return Conflict(
        "the request does not fit the stream as it is now", next_offset=answer.next_offset, **facts
    )


def _speaks_of_type(answer: Answer) -> bool:
    """Recognise the one plain-text refusal of other servers that has no header to tell it by."""
    text = answer.body[:200].lower()
    return b"content-type" in text or b"content type" in text


def retry_after_s(value: str | None, date: str | None) -> float | None:
    """Read a Retry-After: seconds, or a date, taken relative to the server's own clock."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return min(float(text), RETRY_AFTER_S_MAX)
    try:
        until = email.utils.parsedate_to_datetime(text)
        since = email.utils.parsedate_to_datetime(date or "")
        return min(max((until - since).total_seconds(), 0.0), RETRY_AFTER_S_MAX)
    except (TypeError, ValueError):
        return None
