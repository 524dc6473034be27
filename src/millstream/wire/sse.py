"""Server-Sent Events: how messages and positions look on a live connection.

The framing is stricter than SSE itself: ``event: `` with a space, ``data:`` without one, so that
a line that begins with a space gets one more and arrives whole (docs/protocol.md).
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_END = re.compile(rb"\r\n|\r|\n")


def json_event(parts: Iterable[bytes]) -> bytes:
    """Return a data event with JSON values as one array."""
    return text_event((b"[", b",".join(parts), b"]"))


def text_event(parts: Iterable[bytes]) -> bytes:
    """Return a data event with text; every line end becomes a line of the event."""
    payload = b"".join(parts)
    if b"\n" not in payload and b"\r" not in payload:
        if payload[:1] == b" ":
            payload = b" " + payload
        return b"event: data\ndata:" + payload + b"\n\n"
    lines = [
        b"data: " + line if line[:1] == b" " else b"data:" + line
        for line in _LINE_END.split(payload)
    ]
    return b"event: data\n" + b"\n".join(lines) + b"\n\n"


def base64_event(parts: Iterable[bytes]) -> bytes:
    """Return a data event with bytes, padded base64 on one line."""
    return b"event: data\ndata:" + base64.b64encode(b"".join(parts)) + b"\n\n"


def control_event(offset: str, cursor: int | None, *, is_current: bool, is_closed: bool) -> bytes:
    """Return the control event that follows every data event."""
    fields = f'"streamNextOffset":"{offset}"'
    if is_closed:
        fields += ',"upToDate":true,"streamClosed":true'
    else:
        fields += f',"streamCursor":"{cursor}"'
        if is_current:
            fields += ',"upToDate":true'
    return f"event: control\ndata:{{{fields}}}\n\n".encode()
