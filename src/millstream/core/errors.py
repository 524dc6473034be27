"""Refusals: what can be wrong, as data. One code each, stable for ever; one HTTP status each.

Core decides refusals and never raises them: a refusal is an answer like any other and waits for
the disk like any other (it may rest on state that is not durable yet).
"""

from __future__ import annotations

import enum

import msgspec


class Remedy(enum.Enum):
    """What the caller has to do about a refusal."""

    FIX_REQUEST = "fix"
    RETRY_LATER = "retry"
    REFRESH = "refresh"
    STOP_FENCED = "fenced"
    GONE = "gone"
    REPORT_BUG = "bug"


class Code(enum.Enum):
    """Every refusal: (stable code, HTTP status, remedy, title)."""

    INVALID_PATH = ("invalid_path", 400, Remedy.FIX_REQUEST, "The stream path is not valid")
    INVALID_HEADER = ("invalid_header", 400, Remedy.FIX_REQUEST, "A request header is not valid")
    INVALID_QUERY = ("invalid_query", 400, Remedy.FIX_REQUEST, "A query parameter is not valid")
    INVALID_OFFSET = ("invalid_offset", 400, Remedy.FIX_REQUEST, "The offset is not valid")
    INVALID_JSON = ("invalid_json", 400, Remedy.FIX_REQUEST, "The body is not valid JSON")
    INVALID_BODY = ("invalid_body", 400, Remedy.FIX_REQUEST, "The body is not valid")
    EMPTY_BODY = ("empty_body", 400, Remedy.FIX_REQUEST, "The body is empty")
    BAD_REQUEST = ("bad_request", 400, Remedy.FIX_REQUEST, "The request is malformed")
    FORK_INVALID = ("fork_invalid", 400, Remedy.FIX_REQUEST, "The fork point is not valid")
    EPOCH_START = ("epoch_start", 400, Remedy.FIX_REQUEST, "A new epoch starts at sequence 0")
    UNAUTHORIZED = ("unauthorized", 401, Remedy.FIX_REQUEST, "The token is not valid here")
    PRODUCER_FENCED = ("producer_fenced", 403, Remedy.STOP_FENCED, "A newer epoch took over")
    STREAM_NOT_FOUND = ("stream_not_found", 404, Remedy.GONE, "There is no such stream")
    SOURCE_NOT_FOUND = ("source_not_found", 404, Remedy.GONE, "There is no such source stream")
    SUBSCRIPTION_NOT_FOUND = (
        "subscription_not_found",
        404,
        Remedy.GONE,
        "There is no such subscription",
    )
    ROUTE_NOT_FOUND = ("route_not_found", 404, Remedy.FIX_REQUEST, "There is nothing here")
    METHOD_NOT_ALLOWED = (
        "method_not_allowed",
        405,
        Remedy.FIX_REQUEST,
        "The method does not apply here",
    )
    REQUEST_TIMEOUT = ("request_timeout", 408, Remedy.RETRY_LATER, "The request took too long")
    STREAM_EXISTS = ("stream_exists", 409, Remedy.REFRESH, "The stream exists with another set-up")
    STREAM_CLOSED = ("stream_closed", 409, Remedy.REFRESH, "The stream is closed")
    CONTENT_TYPE_MISMATCH = (
        "content_type_mismatch",
        409,
        Remedy.FIX_REQUEST,
        "The content type differs from the stream's",
    )
    SEQUENCE_CONFLICT = (
        "sequence_conflict",
        409,
        Remedy.REFRESH,
        "The Stream-Seq does not follow the last one",
    )
    PRODUCER_GAP = ("producer_gap", 409, Remedy.REFRESH, "The producer skipped a sequence")
    SOURCE_GONE = ("source_gone", 409, Remedy.GONE, "The source stream is deleted")
    SUBSCRIPTION_EXISTS = (
        "subscription_exists",
        409,
        Remedy.REFRESH,
        "The subscription exists with another set-up",
    )
    FENCED = ("fenced", 409, Remedy.STOP_FENCED, "A newer wake took over")
    VERSION_FENCED = ("version_fenced", 409, Remedy.STOP_FENCED, "A higher version took over")
    ALREADY_CLAIMED = ("already_claimed", 409, Remedy.RETRY_LATER, "Another worker holds the claim")
    NO_PENDING_WORK = ("no_pending_work", 409, Remedy.RETRY_LATER, "There is nothing to claim")
    STREAM_GONE = ("stream_gone", 410, Remedy.GONE, "The stream is deleted; forks keep its data")
    OFFSET_GONE = ("offset_gone", 410, Remedy.REFRESH, "The offset is not part of this stream")
    OFFSET_MISMATCH = ("offset_mismatch", 412, Remedy.REFRESH, "The stream has moved on")
    BODY_TOO_LARGE = ("body_too_large", 413, Remedy.FIX_REQUEST, "The body is too large")
    URI_TOO_LONG = ("uri_too_long", 414, Remedy.FIX_REQUEST, "The request target is too long")
    UNSUPPORTED_ENCODING = (
        "unsupported_encoding",
        415,
        Remedy.FIX_REQUEST,
        "The content encoding is not taken",
    )
    TOO_MANY_STREAMS = ("too_many_streams", 429, Remedy.RETRY_LATER, "The stream limit is reached")
    TOO_MANY_PRODUCERS = (
        "too_many_producers",
        429,
        Remedy.RETRY_LATER,
        "The stream's producer limit is reached",
    )
    TOO_MANY_SUBSCRIPTIONS = (
        "too_many_subscriptions",
        429,
        Remedy.RETRY_LATER,
        "The subscription limit is reached",
    )
    HEADERS_TOO_LARGE = ("headers_too_large", 431, Remedy.FIX_REQUEST, "The headers are too large")
    WEBHOOK_URL_REJECTED = (
        "webhook_url_rejected",
        400,
        Remedy.FIX_REQUEST,
        "The webhook URL is not allowed",
    )
    INTERNAL = ("internal", 500, Remedy.REPORT_BUG, "The server failed on this request")
    DATA_DAMAGED = ("data_damaged", 500, Remedy.REPORT_BUG, "The stored data does not check out")
    OVERLOADED = ("overloaded", 503, Remedy.RETRY_LATER, "The server has too much to do")
    STORAGE_FAILED = ("storage_failed", 503, Remedy.RETRY_LATER, "The log cannot be written")
    LOG_FULL = ("log_full", 503, Remedy.RETRY_LATER, "The log's budget is used up")
    STOPPING = ("stopping", 503, Remedy.RETRY_LATER, "The server is stopping")

    def __init__(self, code: str, status: int, remedy: Remedy, title: str) -> None:
        """Spread the tuple into named attributes."""
        self.code = code
        self.status = status
        self.remedy = remedy
        self.title = title


class Refused(msgspec.Struct, frozen=True, kw_only=True):
    """A command was refused and changed nothing. ``detail`` names the field and the rule."""

    code: Code
    detail: str
    field: str | None = None
    next_offset: str | None = None
    is_closed: bool = False
    epoch: int | None = None
    seq_expected: int | None = None
    seq_received: int | None = None
    holder: str | None = None
    generation: int | None = None
    retry_after_s: int | None = None
    version: int | None = None
    version_given: int | None = None
