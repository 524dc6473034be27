"""The routes of the records dialect, for the OpenAPI document and the documentation."""

from __future__ import annotations

from typing import Final

from millstream.server.routes import Answer, Body, Parameter, Route
from millstream.wire.fields import SAFE_INTEGER_MAX
from millstream.wire.records import LIMIT_MAX, TIMEOUT_S_MAX

_JSON: Final = "application/json"
_ROOT: Final = "/records/{path:path}"

_PATH: Final = Parameter(
    name="path",
    place="path",
    text="The stream's path, the same as below /v1/stream/.",
    is_required=True,
    schema={"type": "string", "minLength": 1, "maxLength": 1024},
)
_AUTH: Final = Parameter(name="auth", place="header", text="The secret, if `records_auth` is set.")
_ENVELOPE: Final[dict[str, object]] = {
    "type": "object",
    "properties": {"records": {"type": "array", "items": {}}},
}
_REFUSALS: Final = (
    Answer(status=400, text="The path, a header, a parameter or the body is not valid."),
    Answer(status=401, text="The header `auth` is not the secret."),
)
_OTHER_TYPE: Final = Answer(status=409, text="The stream is not of application/json.")
_UNAVAILABLE: Final = (
    Answer(status=429, text="A limit is reached; Retry-After says when to come back."),
    Answer(status=503, text="Overloaded, out of room, or stopping; see Retry-After."),
)


def _producer(name: str, text: str, schema: dict[str, object]) -> Parameter:
    return Parameter(name=name, place="header", text=text, schema=schema)


def _query(name: str, text: str, schema: dict[str, object]) -> Parameter:
    return Parameter(name=name, place="query", text=text, schema=schema)


_COUNTER: Final[dict[str, object]] = {"type": "integer", "minimum": 0, "maximum": SAFE_INTEGER_MAX}

RECORDS: Final[tuple[Route, ...]] = (
    Route(
        method="POST",
        path=_ROOT,
        handler="append_records",
        summary="Append records, or ask for or raise the version",
        tag="records",
        parameters=(
            _PATH,
            _AUTH,
            _query("version", "Refuse if the stream's is higher, raise it if lower.", _COUNTER),
            _producer("Producer-Id", "Who writes; with epoch and sequence.", {"type": "string"}),
            _producer("Producer-Epoch", "Which life of the producer.", _COUNTER),
            _producer("Producer-Seq", "Which batch of that life.", _COUNTER),
        ),
        body=Body(
            text="The records; none asks for the version.", media_type=_JSON, schema=_ENVELOPE
        ),
        answers=(
            Answer(status=200, text="The offset of each record, or the version.", media_type=_JSON),
            *_REFUSALS,
            Answer(status=403, text="A newer epoch took over.", headers=("Producer-Epoch",)),
            Answer(status=404, text="A repeated batch whose stream was deleted."),
            Answer(status=409, text="A higher version, another content type, closed, or a gap."),
            Answer(status=410, text="The stream is deleted; forks keep its data."),
            Answer(status=413, text="The body is larger than body_bytes_max."),
            *_UNAVAILABLE,
        ),
    ),
    Route(
        method="GET",
        path=_ROOT,
        handler="read_records",
        summary="Read records behind an offset, or wait for the next ones",
        tag="records",
        parameters=(
            _PATH,
            _AUTH,
            _query(
                "offset",
                "32 digits; - is the first record; empty waits for the next.",
                {"type": "string", "pattern": "^(-|[0-9]{32})?$"},
            ),
            _query(
                "limit",
                "Most records, 10 by default.",
                {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX},
            ),
            _query(
                "timeout_sec",
                "How long to wait if there is nothing.",
                {"type": "number", "minimum": 0, "maximum": TIMEOUT_S_MAX},
            ),
        ),
        answers=(
            Answer(status=200, text="Records, or none in time.", media_type=_JSON),
            *_REFUSALS,
            _OTHER_TYPE,
            Answer(status=410, text="The offset is not part of the stream, or it is deleted."),
        ),
    ),
    Route(
        method="DELETE",
        path=_ROOT,
        handler="delete_records",
        summary="Delete exactly this stream",
        tag="records",
        parameters=(_PATH, _AUTH),
        answers=(
            Answer(status=200, text="Deleted.", media_type=_JSON),
            *_REFUSALS,
            Answer(status=404, text="There is no such stream."),
            Answer(status=410, text="It is deleted already; forks keep its data."),
            *_UNAVAILABLE,
        ),
    ),
)
"""Routes of the records door."""
