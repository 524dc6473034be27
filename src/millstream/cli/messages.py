"""How the bytes of a stream are printed: JSON one value per line, everything else as it is."""

import base64
import json
from typing import Any

import msgspec

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])


def is_json(content_type: str) -> bool:
    """Whether a stream of this type holds JSON values."""
    return content_type.partition(";")[0].strip().lower() == "application/json"


def is_text(content_type: str) -> bool:
    """Whether a stream of this type holds text."""
    return content_type.strip().lower().startswith("text/")


def values(body: bytes) -> list[bytes]:
    """Split the JSON array that a JSON stream is read as, each value in its original bytes.

    Only line breaks between tokens are taken out, so that a value fits on a line.
    """
    items = [bytes(item) for item in _ARRAY.decode(body or b"[]")]
    return [msgspec.json.format(item, indent=-1) if b"\n" in item else item for item in items]


def lines(content_type: str, body: bytes) -> bytes:
    """Return what to print for data of a stream of this type."""
    if is_json(content_type):
        return b"".join(item + b"\n" for item in values(body))
    return body


def described(content_type: str, body: bytes) -> dict[str, Any]:
    """Return the data for `--json`: `messages`, `text` or `base64`, as the type allows."""
    if is_json(content_type):
        return {"messages": [json.loads(item) for item in values(body)]}
    if is_text(content_type):
        try:
            return {"text": body.decode()}
        except UnicodeDecodeError:
            pass
    return {"base64": base64.b64encode(body).decode("ascii")}
