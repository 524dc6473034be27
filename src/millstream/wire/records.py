"""The records dialect as bytes: ``{"records":[…]}`` in, 32-digit offsets and envelopes out.

An offset here is one of ours without its underscore: sixteen digits of commit time, sixteen of
index. Every record has its own, also inside one append.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from millstream.core.errors import Code, Refused
from millstream.core.offsets import ZERO, Position
from millstream.core.streams.commands import EMPTY, AppendRecords, Body
from millstream.wire.append import parse_claim
from millstream.wire.bodies import joined, not_json, not_text, too_many
from millstream.wire.fields import (
    SAFE_INTEGER_MAX,
    query_values,
    refuse_header,
    refuse_query,
    single,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RECORDS_ROOT = b"/records/"
FIRST = "-"
"""The offset before the first record."""
LIMIT_DEFAULT = 10
LIMIT_MAX = 10_000
TIMEOUT_S_MAX = 60
NEXT_TIMEOUT_S = 30.0
"""How long a reader waits for the next record when it does not say."""

_DIGITS = 16
_SPACE = b" \t\r\n"
_SECONDS = re.compile(r"[0-9]{1,6}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,2})?")
_CLAIM = (b"producer-id", b"producer-epoch", b"producer-seq")


class _Envelope(msgspec.Struct):
    records: list[msgspec.Raw] = []


_envelope = msgspec.json.Decoder(_Envelope)


class Wanted(NamedTuple):
    """What a reader asks for. ``start`` is None for the tail of this moment."""

    start: Position | None
    limit: int
    timeout_s: float


def parse_append(
    path: str, query: bytes, headers: Mapping[bytes, bytes], body: bytes
) -> AppendRecords | Refused:
    """Return the command of a POST, or why there is none."""
    values = query_values(query)
    if isinstance(values, Refused):
        return values
    version = _version(values)
    if isinstance(version, Refused):
        return version
    records = _records(body)
    if isinstance(records, Refused):
        return records
    if not any(name in headers for name in _CLAIM):
        return AppendRecords(path, records, version)
    claim = parse_claim(headers)
    if isinstance(claim, Refused):
        return claim
    if not records.count:
        return refuse_header("Producer-Id", "a producer's request must carry records")
    return AppendRecords(path, records, version, claim)


def parse_read(query: bytes) -> Wanted | Refused:
    """Return what the query of a GET asks for, or what is wrong with it."""
    values = query_values(query)
    if isinstance(values, Refused):
        return values
    start = _start(values)
    if isinstance(start, Refused):
        return start
    limit = _limit(values)
    if isinstance(limit, Refused):
        return limit
    timeout_s = _timeout(values, NEXT_TIMEOUT_S if start is None else 0.0)
    if isinstance(timeout_s, Refused):
        return timeout_s
    return Wanted(start, limit, timeout_s)


def offset_text(time_ms: int, index: int) -> str:
    """Return the offset of the record ``index``, committed at ``time_ms``."""
    return f"{time_ms:016d}{index:016d}"


def render_offsets(time_ms: int, indexes: Iterable[int]) -> bytes:
    """Return the answer to an append: the offset of each record, in order."""
    time = b'"%016d' % time_ms
    return b'{"offsets":[%b]}' % b",".join([b'%b%016d"' % (time, index) for index in indexes])


def render_records(records: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return the answer to a read, from (commit time, index, bytes) of each record."""
    return b'{"records":[%b]}' % b",".join(
        [b'{"offset":"%016d%016d","data":%b}' % record for record in records]
    )


def _records(body: bytes) -> Body | Refused:
    if not body.strip(_SPACE):
        return EMPTY
    bad = too_many(body) if body.isascii() else not_text(body) or too_many(body)
    if bad is not None:
        return bad
    try:
        return joined(_envelope.decode(body).records)
    except msgspec.ValidationError as error:
        return Refused(
            code=Code.INVALID_BODY,
            detail=f'the body must be an object such as {{"records":[1,2]}}: {error}',
            field="body",
        )
    except (msgspec.DecodeError, RecursionError) as error:
        return not_json(error)


def _version(values: Mapping[str, list[str]]) -> int | Refused | None:
    value = single(values, "version")
    if value is None or isinstance(value, Refused):
        return value
    number = _number(value)
    if number is None or number > SAFE_INTEGER_MAX:
        return refuse_query("version", f"must be digits only, from 0 to {SAFE_INTEGER_MAX}")
    return number


def _start(values: Mapping[str, list[str]]) -> Position | Refused | None:
    value = single(values, "offset")
    if not value or isinstance(value, Refused):
        # Without an offset, or with an empty one, the reader waits for what comes next.
        return value or None
    if value == FIRST:
        return ZERO
    if len(value) != 2 * _DIGITS or not (value.isascii() and value.isdigit()):
        return Refused(
            code=Code.INVALID_OFFSET,
            detail="?offset=: must be 32 digits as a record has them, - for the first record,"
            " or empty for the next one",
            field="offset",
        )
    return Position(int(value[:_DIGITS]), int(value[_DIGITS:]))


def _limit(values: Mapping[str, list[str]]) -> int | Refused:
    value = single(values, "limit")
    if value is None:
        return LIMIT_DEFAULT
    if isinstance(value, Refused):
        return value
    number = _number(value)
    if number is None or not 1 <= number <= LIMIT_MAX:
        return refuse_query("limit", f"must be a number of records from 1 to {LIMIT_MAX}")
    return number


def _timeout(values: Mapping[str, list[str]], default_s: float) -> float | Refused:
    value = single(values, "timeout_sec")
    if value is None:
        return default_s
    if isinstance(value, Refused):
        return value
    if _SECONDS.fullmatch(value) is None or float(value) > TIMEOUT_S_MAX:
        return refuse_query("timeout_sec", f"must be seconds from 0 to {TIMEOUT_S_MAX}, as in 2.5")
    return float(value)


def _number(value: str) -> int | None:
    """Return what digits say; None for anything else, and for more than 16 that count."""
    if not (value.isascii() and value.isdigit()):
        return None
    digits = value.lstrip("0") or "0"
    return int(digits) if len(digits) <= _DIGITS else None
