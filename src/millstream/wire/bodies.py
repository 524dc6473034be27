"""Request bodies as messages: bytes as they are, JSON cut into its values without touching them."""

from __future__ import annotations

from array import array

import msgspec

from millstream.core.errors import Code, Refused
from millstream.core.streams.commands import EMPTY, Body

_one = msgspec.json.Decoder(msgspec.Raw)
_many = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE = b" \t\r\n"
_PLAIN_START = frozenset((b"{", b'"'))
_PLAIN_END = frozenset((b"}", b'"'))

VALUES_MAX = 500_000
"""Most JSON values, nested ones counted, in one array. Cutting an array costs time and memory for
each of its values, on the event loop: without a bound, megabytes of `[0,0,0…` would hold up
everybody for seconds."""


def bytes_body(body: bytes) -> Body:
    """Return a body of a byte stream: one message, or none."""
    return Body(body, 1) if body else EMPTY


def json_body(body: bytes, *, may_be_empty: bool) -> Body | Refused:
    """Cut JSON into messages: the values of a top-level array, or the one value.

    Every value keeps its original bytes. An empty array is no message, and allowed only where
    ``may_be_empty`` says so (creation).
    """
    if not body.isascii() and (bad := not_text(body)) is not None:
        return bad
    try:
        if body[:1] in _PLAIN_START and body[-1:] in _PLAIN_END:
            # Nothing but the value: its bytes are the body's.
            _one.decode(body)
            return Body(body, 1)
        if body.lstrip(_SPACE)[:1] != b"[":
            return Body(bytes(_one.decode(body)), 1)
        if (bad := too_many(body)) is not None:
            return bad
        values = _many.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        return not_json(error)
    if not values:
        if may_be_empty:
            return EMPTY
        return Refused(
            code=Code.EMPTY_BODY, detail="an empty JSON array adds no message", field="body"
        )
    if len(values) == 1:
        return Body(bytes(values[0]), 1)
    lengths = list(map(len, values))
    # Without white space around the values the array's inside is what would be joined again.
    is_dense = sum(lengths) + len(lengths) + 1 == len(body)
    data = body[1:-1] if is_dense else b",".join(map(bytes, values))
    return Body(data, len(values), array("I", lengths).tobytes())


def not_text(body: bytes) -> Refused | None:
    """Refuse what is not UTF-8: the decoder takes that inside strings for granted."""
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        return _refuse(f"it must be UTF-8, and is not at byte {error.start}")
    return None


def too_many(body: bytes) -> Refused | None:
    """Refuse an array of more than ``VALUES_MAX`` values."""
    # A value and its comma take two bytes, so most bodies need not be counted.
    if len(body) <= 2 * VALUES_MAX or body.count(b",") < VALUES_MAX:
        return None
    return Refused(
        code=Code.BODY_TOO_LARGE,
        detail=f"an array may hold at most {VALUES_MAX} JSON values, nested ones counted;"
        " split it into several requests",
        field="body",
    )


def not_json(error: msgspec.DecodeError | RecursionError) -> Refused:
    """Return the refusal of a body on which the decoder gave up."""
    if isinstance(error, RecursionError):
        return _refuse("it is nested too deeply")
    text = str(error)
    if "truncated" in text:
        text = "it ends too soon, or an escape holds half of a surrogate pair"
    return _refuse(text)


def joined(values: list[msgspec.Raw]) -> Body:
    """Return values as the messages of one append, each with its original bytes."""
    if len(values) < 2:
        return Body(bytes(values[0]), 1) if values else EMPTY
    lengths = array("I", map(len, values)).tobytes()
    return Body(b",".join(map(bytes, values)), len(values), lengths)


def _refuse(why: str) -> Refused:
    detail = f"the body is not valid JSON: {why}"
    return Refused(code=Code.INVALID_JSON, detail=detail, field="body")
