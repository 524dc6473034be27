"""Server-sent events out of bytes as they come, however the network cuts them.

Lines end at LF, CR or CRLF and nowhere else: U+2028 and its like are ordinary characters. The
data of an event stays bytes, so a character cut in two by the network is never seen as such.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class Event(NamedTuple):
    """One event: its type and its data lines, joined by line feeds."""

    kind: str
    data: bytes


class EventParser:
    """Feed it the chunks of one connection; an event cut off by the end is never given out."""

    __slots__ = ("_data", "_is_after_cr", "_is_at_start", "_kind", "_line")

    def __init__(self) -> None:
        self._line: list[bytes] = []
        self._kind = b""
        self._data: list[bytes] = []
        self._is_after_cr = False
        self._is_at_start = True

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that this chunk completes, in order."""
        if self._is_after_cr and chunk:
            # The CR ended its line when it came; its LF, if any, ends nothing.
            chunk = chunk.removeprefix(b"\n")
            self._is_after_cr = False
        if b"\r" in chunk:
            self._is_after_cr = chunk.endswith(b"\r")
            chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        head, *lines = chunk.split(b"\n")
        # A long line comes in many chunks: its parts are joined once, when it ends.
        if head:
            self._line.append(head)
        if not lines:
            return []
        rest = lines.pop()
        lines.insert(0, b"".join(self._line))
        self._line = [rest] if rest else []
        return self._events(lines)

    def _events(self, lines: list[bytes]) -> list[Event]:
        events: list[Event] = []
        if self._is_at_start:
            lines[0] = lines[0].removeprefix(_BYTE_ORDER_MARK)
            self._is_at_start = False
        for line in lines:
            if not line:
                if self._data:
                    kind = self._kind.decode("utf-8", "replace") or "message"
                    events.append(Event(kind, b"\n".join(self._data)))
                self._kind, self._data = b"", []
                continue
            name, _, value = line.partition(b":")
            # One space behind the colon belongs to the format, a second one to the data.
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            elif name == b"event":
                self._kind = value.removeprefix(b" ")
        return events
