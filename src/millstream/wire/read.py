"""GET and HEAD on a stream: what a reader asks for, and the headers of what it gets."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, NamedTuple

from millstream.core.errors import Code, Refused
from millstream.core.offsets import BEGINNING, NOW, ZERO, Position, parse_offset
from millstream.wire.fields import (
    SAFE_INTEGER_MAX,
    query_values,
    refuse_query,
    rfc3339_ms,
    single,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CURSOR_EPOCH_MS = 1_728_432_000_000
"""2024-10-09T00:00:00Z, where the protocol begins to count cursor intervals."""
CURSOR_INTERVAL_MS = 20_000
CURSOR_JITTER_MAX = 180
"""The protocol's 3,600 seconds of jitter, in intervals."""

LIMIT_MAX = 1_000_000
_CURSOR_DIGITS_MAX = 15
_AT_DIGITS_MAX = 16


class Mode(enum.Enum):
    """How the reader wants it."""

    CATCH_UP = "catch-up"
    LONG_POLL = "long-poll"
    SSE = "sse"


class Wanted(NamedTuple):
    """What a GET asks for. ``start`` is None for the tail of this moment (``now``)."""

    mode: Mode
    start: Position | None
    cursor: int | None
    limit: int


FROM_START = Wanted(Mode.CATCH_UP, ZERO, None, LIMIT_MAX)


def parse(raw_query: bytes) -> Wanted | Refused:
    """Return what the query asks for."""
    if not raw_query:
        return FROM_START
    values = query_values(raw_query)
    if isinstance(values, Refused):
        return values
    mode = _mode(values)
    if isinstance(mode, Refused):
        return mode
    start = _start(values, mode)
    if isinstance(start, Refused):
        return start
    limit = _limit(values)
    if isinstance(limit, Refused):
        return limit
    return Wanted(mode, start, _cursor(values), limit)


def _mode(values: Mapping[str, list[str]]) -> Mode | Refused:
    live = single(values, "live")
    if live is None:
        return Mode.CATCH_UP
    if isinstance(live, Refused):
        return live
    if live == Mode.LONG_POLL.value:
        return Mode.LONG_POLL
    if live == Mode.SSE.value:
        return Mode.SSE
    return refuse_query("live", "must be long-poll or sse")


def _start(values: Mapping[str, list[str]], mode: Mode) -> Position | Refused | None:
    offset, at = single(values, "offset"), single(values, "at")
    if isinstance(offset, Refused):
        return offset
    if isinstance(at, Refused):
        return at
    if at is not None:
        if offset is not None:
            return refuse_query("at", "cannot go together with offset")
        return _at(at)
    if offset is None:
        if mode is not Mode.CATCH_UP:
            return refuse_query("offset", f"is required with live={mode.value}; try offset=now")
        return ZERO
    if offset == NOW:
        return None
    if offset == BEGINNING:
        return ZERO
    position = parse_offset(offset)
    if position is None:
        return Refused(
            code=Code.INVALID_OFFSET,
            detail="?offset=: must be -1, now, or an offset as Stream-Next-Offset gives it",
            field="offset",
        )
    return position


def _at(value: str) -> Position | Refused:
    """Return the point in time that ``at`` names."""
    if value.isascii() and value.isdigit() and len(value) <= _AT_DIGITS_MAX:
        return Position(int(value), 0)
    moment = rfc3339_ms(value.replace(" ", "+"))
    if moment is None:
        return refuse_query("at", "must be an RFC 3339 time or Unix milliseconds")
    return Position(moment, 0)


def _limit(values: Mapping[str, list[str]]) -> int | Refused:
    value = single(values, "limit")
    if value is None:
        return LIMIT_MAX
    if isinstance(value, Refused):
        return value
    if value.isascii() and value.isdigit() and len(value) <= len(str(LIMIT_MAX)):
        number = int(value)
        if 1 <= number <= LIMIT_MAX:
            return number
    return refuse_query("limit", f"must be a number of messages from 1 to {LIMIT_MAX}")


def _cursor(values: Mapping[str, list[str]]) -> int | None:
    value = single(values, "cursor")
    # An unreadable cursor only loses the collapsing of requests, never data: not worth an error.
    if value is None or isinstance(value, Refused):
        return None
    if not value.isascii() or not value.isdigit() or len(value) > _CURSOR_DIGITS_MAX:
        return None
    return min(int(value), SAFE_INTEGER_MAX)


def next_cursor(now_ms: int, seen: int | None, jitter: int) -> int:
    """Return the cursor of a live answer: always past the one the client has seen."""
    # A clock before the epoch must not make a cursor that is no number to others.
    current = max(now_ms - CURSOR_EPOCH_MS, 0) // CURSOR_INTERVAL_MS
    if seen is None or seen < current:
        return current
    return seen + jitter


def etag(stream_id: int, created_ms: int, pages: tuple[int, int], *, is_eof: bool) -> bytes:
    """Return the entity tag of a page: incarnation, range, and whether it is the last there is.

    The time of creation keeps streams of two data directories apart that count alike.
    """
    return b'"%d.%x:%d:%d%s"' % (stream_id, created_ms, *pages, b":c" if is_eof else b"")


def is_cached(if_none_match: bytes | None, tag: bytes) -> bool:
    """Tell whether the client holds this very page already."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == b"*":
        return True
    for candidate in if_none_match.split(b","):
        plain = candidate.strip()
        if plain.startswith(b"W/"):
            plain = plain[2:]
        if plain == tag:
            return True
    return False
