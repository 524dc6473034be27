"""One message as bytes, checked alone; many messages as one request body.

A message that cannot be sent is found here, before it has a place in a batch, so it can never
take its neighbours down with it, nor become two messages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from millstream.client.errors import BadMessage
from millstream.core import media

_value: Final = msgspec.json.Decoder(msgspec.Raw)
_encode_json: Final = msgspec.json.Encoder().encode
_SPACE: Final = b" \t\r\n"


class Raw(msgspec.Struct, frozen=True):
    """A message that is ready to be sent: exactly one JSON value as text, or plain bytes.

    On a JSON stream the text is checked and kept as it is, so numbers, key order and duplicate
    keys arrive untouched.
    """

    data: bytes | str


def encode(message: Any, content_type: str) -> bytes:
    """Return the bytes of one message for a stream of this content type; raises BadMessage.

    JSON streams take whatever msgspec can encode (NaN and infinities become null, as JSON has
    none), or `Raw`. Other streams take bytes, and text as UTF-8.
    """
    if not media.is_json(content_type):
        return _plain(message)
    if isinstance(message, Raw | msgspec.Raw):
        return _checked(message)
    if isinstance(message, bytes | bytearray | memoryview):
        # It would become base64 text, which nobody who has bytes in hand means.
        raise BadMessage("bytes are no JSON value; wrap ready-made JSON in Raw")
    try:
        return _encode_json(message)
    except (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError) as error:
        raise BadMessage(
            f"the message cannot be written as JSON ({type(error).__name__})"
        ) from None


def body(parts: Sequence[bytes], content_type: str) -> bytes:
    """Return the request body of these messages: one JSON array, or the bytes joined."""
    if media.is_json(content_type):
        return b"[" + b",".join(parts) + b"]"
    return b"".join(parts)


def _plain(message: Any) -> bytes:
    if isinstance(message, Raw):
        message = message.data
    if isinstance(message, bytes):
        return message
    if isinstance(message, bytearray | memoryview):
        return bytes(message)
    if not isinstance(message, str):
        raise BadMessage(f"a message must be bytes or text, not {type(message).__name__}")
    return _utf8(message)


def _checked(message: Raw | msgspec.Raw) -> bytes:
    """Return ready-made JSON if it is exactly one value that every server will take."""
    data = message.data if isinstance(message, Raw) else bytes(message)
    text = _utf8(data) if isinstance(data, str) else bytes(data)
    try:
        if not text.isascii():
            # The decoder takes invalid UTF-8 inside strings for granted.
            text.decode("utf-8")
        _value.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        # The decoder's words are about positions; they quote nothing of the message.
        raise BadMessage(f"the message is not one JSON value ({type(error).__name__})") from None
    return text.strip(_SPACE)


def _utf8(text: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        raise BadMessage("the text has half of a surrogate pair, which UTF-8 cannot hold") from None
