"""The routes of streams and their listing, and all routes together."""

from __future__ import annotations

from typing import Final

from millstream.server.records_routes import RECORDS
from millstream.server.routes import OPERATIONS, Answer, Body, Parameter, Route
from millstream.server.subscription_routes import SUBSCRIPTIONS

_OFFSET: Final[dict[str, object]] = {"type": "string", "maxLength": 64}
_INTEGER: Final[dict[str, object]] = {"type": "integer", "minimum": 0}
_EPOCH: Final[dict[str, object]] = {"anyOf": [_INTEGER, {"const": "next"}]}

PATH: Final = Parameter(
    name="path", place="path", text="The stream's path.", is_required=True,
    schema={"type": "string", "minLength": 1, "maxLength": 1024},
)  # fmt: skip
_TAIL_HEADERS: Final = ("Stream-Next-Offset", "Stream-Closed")
_REFUSALS: Final = (
    Answer(status=400, text="The path, a header, a parameter or the body is not valid."),
    Answer(status=404, text="There is no such stream."),
    Answer(status=410, text="The stream is deleted, or the offset is not part of it."),
)
_UNAVAILABLE: Final = (
    Answer(status=429, text="A limit is reached; Retry-After says when to come back."),
    Answer(status=503, text="Overloaded, out of room, or stopping; see Retry-After."),
)
_TOO_LARGE: Final = Answer(status=413, text="The body is larger than body_bytes_max.")


def _header(name: str, text: str, schema: dict[str, object] | None = None) -> Parameter:
    return Parameter(name=name, place="header", text=text, schema=schema or {"type": "string"})


def _query(name: str, text: str, schema: dict[str, object] | None = None) -> Parameter:
    return Parameter(name=name, place="query", text=text, schema=schema or {"type": "string"})


def _count(most: int) -> dict[str, object]:
    return {"type": "integer", "minimum": 1, "maximum": most}


STREAMS: Final[tuple[Route, ...]] = (
    Route(
        method="PUT",
        path="/v1/stream/{path:path}",
        handler="create",
        summary="Create a stream or a fork, or confirm that it is there",
        tag="streams",
        parameters=(
            PATH,
            _header("Stream-TTL", "Sliding life time in seconds.", _INTEGER),
            _header("Stream-Expires-At", "End of life, RFC 3339."),
            _header("Stream-Closed", "`true` creates it closed."),
            _header("Stream-Forked-From", "URL path of the stream to fork."),
            _header("Stream-Fork-Offset", "Where to leave the source; its tail by default."),
            _header("Stream-Fork-Sub-Offset", "Bytes or messages past that offset.", _INTEGER),
        ),
        body=Body(text="The first messages."),
        answers=(
            Answer(status=200, text="It was there, just so.", headers=_TAIL_HEADERS),
            Answer(status=201, text="Created.", headers=("Location", *_TAIL_HEADERS)),
            Answer(status=400, text="A header or the body is not valid."),
            Answer(status=404, text="There is no such source stream."),
            Answer(status=409, text="It exists with another set-up, or the source is gone."),
            _TOO_LARGE,
            *_UNAVAILABLE,
        ),
    ),
    Route(
        method="POST",
        path="/v1/stream/{path:path}",
        handler="append",
        summary="Append messages, close the stream, or both",
        tag="streams",
        parameters=(
            PATH,
            _header("Producer-Id", "Who writes; with epoch and sequence."),
            _header("Producer-Epoch", "Which life of the producer; `next` asks for one.", _EPOCH),
            _header("Producer-Seq", "Which batch of that life.", _INTEGER),
            _header("Stream-Seq", "Must be greater than the last one, in byte order."),
            _header("Stream-Closed", "`true` closes the stream behind the messages."),
            _header("If-Match", "The tail offset this append expects.", _OFFSET),
        ),
        body=Body(text="Bytes, or one JSON value, or an array of them."),
        answers=(
            Answer(status=200, text="Stored, with producer headers.", headers=_TAIL_HEADERS),
            Answer(status=204, text="Stored, or a duplicate.", headers=_TAIL_HEADERS),
            *_REFUSALS,
            Answer(status=403, text="A newer epoch took over.", headers=("Producer-Epoch",)),
            Answer(
                status=409,
                text="Closed, another content type, a sequence out of order, or a gap.",
                headers=(*_TAIL_HEADERS, "Producer-Expected-Seq", "Producer-Received-Seq"),
            ),
            Answer(status=412, text="The tail is not the one in If-Match.", headers=_TAIL_HEADERS),
            _TOO_LARGE,
            *_UNAVAILABLE,
        ),
    ),
    Route(
        method="GET",
        path="/v1/stream/{path:path}",
        handler="read",
        summary="Read messages: a page now, or the next ones when they come",
        tag="streams",
        parameters=(
            PATH,
            _query("offset", "-1, now, or an offset.", _OFFSET),
            _query("live", "Wait for more.", {"type": "string", "enum": ["long-poll", "sse"]}),
            _query("cursor", "The last Stream-Cursor."),
            _query("limit", "Most messages.", _count(1_000_000)),
            _query("at", "Start at a time: RFC 3339 or Unix milliseconds."),
            _header("If-None-Match", "The ETag of a page that is held already."),
        ),
        answers=(
            Answer(
                status=200,
                text="Messages, or nothing new.",
                media_type="*/*",
                headers=(*_TAIL_HEADERS, "Stream-Up-To-Date", "Stream-Cursor", "ETag"),
            ),
            Answer(status=204, text="Long-poll: nothing came.", headers=_TAIL_HEADERS),
            Answer(status=304, text="The page is held already."),
            *_REFUSALS,
        ),
    ),
    Route(
        method="HEAD",
        path="/v1/stream/{path:path}",
        handler="head",
        summary="Tell what the stream is and where its tail is",
        tag="streams",
        parameters=(PATH,),
        answers=(
            Answer(
                status=200,
                text="It is there.",
                headers=(*_TAIL_HEADERS, "Stream-TTL", "Stream-Expires-At"),
            ),
            *_REFUSALS,
        ),
    ),
    Route(
        method="DELETE",
        path="/v1/stream/{path:path}",
        handler="delete",
        summary="Delete a stream; what forks read of it stays",
        tag="streams",
        parameters=(PATH,),
        answers=(Answer(status=204, text="Deleted."), *_REFUSALS, *_UNAVAILABLE),
    ),
    Route(
        method="GET",
        path="/v1/streams",
        handler="list_streams",
        summary="List streams by prefix",
        tag="streams",
        parameters=(
            _query("prefix", "Only paths that start so."),
            _query("after", "Only paths behind this one."),
            _query("limit", "Most entries, 100 by default.", _count(1000)),
        ),
        answers=(
            Answer(status=200, text="One page.", media_type="application/json"),
            Answer(status=400, text="A parameter is not valid."),
        ),
    ),
)
"""Routes of the main door."""

ALL_ROUTES: Final[tuple[Route, ...]] = (*STREAMS, *SUBSCRIPTIONS, *RECORDS, *OPERATIONS)
"""Every route, for the OpenAPI document and the documentation."""
