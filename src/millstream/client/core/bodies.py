"""Bodies of JSON streams: checked and decoded whole, joined without decoding."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import msgspec

from millstream.client.errors import ParseError
from millstream.core import media

_CHECK: Final = msgspec.json.Decoder(msgspec.Raw)
_DECODE: Final = msgspec.json.Decoder()
_WHITE: Final = b" \t\r\n"


def is_json(content_type: str | None) -> bool:
    """Tell whether messages of this content type are JSON values."""
    return content_type is not None and media.is_json(content_type)


def check(body: bytes, url: str) -> None:
    """Raise ParseError unless the body is whole, well-formed JSON. Makes no objects of it."""
    try:
        _CHECK.decode(body)
    except (msgspec.DecodeError, RecursionError):
        _slowly(body, url)


def values(body: bytes, url: str) -> list[Any]:
    """Return the messages of a body; an empty one has none. Raises ParseError."""
    if not body:
        return []
    try:
        found = _DECODE.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = _slowly(body, url)
    return found if isinstance(found, list) else [found]


def joined(bodies: Sequence[bytes], url: str) -> bytes:
    """Return one array with the messages of all bodies; the values stay as they were sent.

    Raises ParseError unless each body is whole by itself: two halves must not make a whole.
    """
    parts = []
    for body in bodies:
        check(body, url)
        part = body.strip(_WHITE)
        parts.append(part[1:-1].strip(_WHITE) if part[:1] == b"[" else part)
    return b"[" + b",".join(part for part in parts if part) + b"]"


def is_blank(body: bytes) -> bool:
    """Tell whether a body of a JSON stream has no messages."""
    return len(body) < 64 and body.translate(None, _WHITE) in {b"", b"[]"}


def _slowly(body: bytes, url: str) -> Any:
    """Decode what the fast decoder refuses: other servers keep lone surrogates."""
    try:
        return json.loads(body, parse_constant=_refused)
    except (ValueError, RecursionError):
        # The decoder's own words may quote the body.
        raise ParseError("the answer is not whole JSON; it was cut or damaged", url=url) from None


def _refused(name: str) -> NoReturn:
    raise ValueError(name)
