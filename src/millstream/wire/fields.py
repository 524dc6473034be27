"""Request headers and query parameters as values, with refusals that name field and rule."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from millstream.core.errors import Code, Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

SAFE_INTEGER_MAX = 2**53 - 1
FIELD_BYTES_MAX = 1024

_PLAIN = re.compile(rb"0|[1-9][0-9]*")
_DIGITS = re.compile(rb"[0-9]+")
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+\s*(;.*)?")
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_UNIX_MS_DIGITS_MAX = 16
_REMEMBERED_BYTES_MAX = 64


def refuse_header(name: str, rule: str) -> Refused:
    """Return the refusal of a header."""
    return Refused(code=Code.INVALID_HEADER, detail=f"{name}: {rule}", field=name)


def refuse_query(name: str, rule: str) -> Refused:
    """Return the refusal of a query parameter."""
    return Refused(code=Code.INVALID_QUERY, detail=f"?{name}=: {rule}", field=name)


def plain_integer(raw: bytes, name: str) -> int | Refused:
    """Return a non-negative integer written without sign, leading zeros or anything else."""
    if _PLAIN.fullmatch(raw) is None or len(raw) > _UNIX_MS_DIGITS_MAX:
        return refuse_header(name, "must be a non-negative integer such as 3600, without sign")
    value = int(raw)
    if value > SAFE_INTEGER_MAX:
        return refuse_header(name, f"must be at most {SAFE_INTEGER_MAX}")
    return value


def counter(raw: bytes, name: str) -> int | Refused:
    """Return a producer number: digits only, up to 2^53 - 1."""
    if _DIGITS.fullmatch(raw) is None:
        return refuse_header(name, "must be a non-negative integer, digits only")
    # Leading zeros are taken, but not thousands of them to int(), which refuses to count that far.
    if len(raw) > _UNIX_MS_DIGITS_MAX:
        raw = raw.lstrip(b"0") or b"0"
    value = int(raw) if len(raw) <= _UNIX_MS_DIGITS_MAX else SAFE_INTEGER_MAX + 1
    if value > SAFE_INTEGER_MAX:
        return refuse_header(name, f"must be at most {SAFE_INTEGER_MAX}")
    return value


def text(raw: bytes, name: str) -> str | Refused:
    """Return a header that is free text: not empty, UTF-8, of bounded length."""
    if not raw:
        return refuse_header(name, "must not be empty")
    if len(raw) > FIELD_BYTES_MAX:
        return refuse_header(name, f"must be at most {FIELD_BYTES_MAX} bytes")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return refuse_header(name, "must be UTF-8")


def is_true(raw: bytes | None) -> bool:
    """Tell whether a flag header says ``true``, in any case; all else counts as absent."""
    return raw is not None and raw.lower() == b"true"


def media_type(raw: bytes | None) -> str | None:
    """Return a content type as it was sent, or None when it is missing or not one."""
    if not raw:
        return None
    # Nearly every request names one of a few types; what is long is not worth remembering.
    return _known_media_type(raw) if len(raw) <= _REMEMBERED_BYTES_MAX else _media_type(raw)


def _media_type(raw: bytes) -> str | None:
    value = raw.decode("latin-1")
    if not value.isascii() or _MEDIA_TYPE.fullmatch(value) is None:
        return None
    return value


_known_media_type = lru_cache(maxsize=1024)(_media_type)


def rfc3339_ms(value: str) -> int | None:
    """Return an RFC 3339 timestamp in Unix milliseconds, or None when it is not one."""
    if _RFC3339.fullmatch(value) is None:
        return None
    try:
        moment = datetime.fromisoformat(value.upper())
    except ValueError:
        return None
    # Downwards, in whole numbers and within the calendar of UTC, so that what is printed again is
    # the same moment.
    return min(max((moment - _EPOCH) // _MILLISECOND, 0), _CALENDAR_END_MS)


def rfc3339(time_ms: int) -> str:
    """Return Unix milliseconds as an RFC 3339 timestamp in UTC."""
    seconds, milliseconds = divmod(time_ms, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return "9999-12-31T23:59:59.999Z"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_CALENDAR_END_MS = 253_402_300_799_999


def query_values(raw: bytes) -> Mapping[str, list[str]] | Refused:
    """Return the parameters of a raw query, blanks and repeats included. A plus is a plus."""
    values: dict[str, list[str]] = {}
    if not raw:
        return values
    for pair in raw.split(b"&"):
        name, _, value = pair.partition(b"=")
        try:
            key = unquote_to_bytes(name).decode("utf-8")
            values.setdefault(key, []).append(unquote_to_bytes(value).decode("utf-8"))
        except UnicodeDecodeError:
            return Refused(code=Code.INVALID_QUERY, detail="the query must be UTF-8", field="query")
    return values


def single(values: Mapping[str, list[str]], name: str) -> str | Refused | None:
    """Return the one value of a parameter, None when it is absent; repeats are refused."""
    found = values.get(name)
    if found is None:
        return None
    if len(found) > 1:
        return refuse_query(name, "must be given once")
    return found[0]
