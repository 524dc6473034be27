"""Status lines and header blocks, built once and reused."""

from __future__ import annotations

from email.utils import formatdate
from http import HTTPStatus
from typing import Final

from millstream.server.http import Headers

_REASONS: Final = {status.value: status.phrase.encode() for status in HTTPStatus}

_colon: Final = b": ".join

CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
"""The interim answer to ``Expect: 100-continue``."""


def split_lines(lines: bytes) -> list[tuple[bytes, bytes]]:
    """Return ready-made header lines as pairs of name and value."""
    pairs = [line.partition(b": ") for line in lines.splitlines()]
    return [(name, value) for name, _, value in pairs]


class Heads:
    """Writes response heads. The part that depends on status and date only is kept per second."""

    __slots__ = ("_date", "_prefixes")

    def __init__(self, unix_s: float) -> None:
        """Start with the date of `unix_s`."""
        self._prefixes: dict[int, bytes] = {}
        self._date = b""
        self.set_date(unix_s)

    def set_date(self, unix_s: float) -> None:
        """Use this time in the Date header from now on; call it about once a second."""
        date = formatdate(unix_s, usegmt=True).encode()
        if date != self._date:
            self._date = date
            self._prefixes = {}

    def render(self, status: int, headers: Headers, tail: bytes) -> bytes:
        """Return a whole head; `tail` is ready-made header lines.

        Raises ValueError rather than let a header value start a line of its own.
        """
        prefix = self._prefixes.get(status) or self._prefix(status)
        if not headers:
            return b"".join((prefix, tail, b"\r\n"))
        lines = b"\r\n".join(map(_colon, headers))
        breaks = len(headers) - 1
        if lines.count(b"\n") != breaks or lines.count(b"\r") != breaks or 0 in lines:
            raise ValueError("a response header contains a line break or NUL")
        return b"".join((prefix, lines, b"\r\n", tail, b"\r\n"))

    def complete(self, status: int, lines: bytes) -> bytes:
        """Return a whole head, without a body, of ready-made header lines with their line ends."""
        end = b"\r\n" if status == 204 else b"content-length: 0\r\n\r\n"
        return (self._prefixes.get(status) or self._prefix(status)) + lines + end

    def _prefix(self, status: int) -> bytes:
        prefix = (
            b"HTTP/1.1 %d %b\r\n"
            b"date: %b\r\n"
            b"x-content-type-options: nosniff\r\n"
            b"cross-origin-resource-policy: cross-origin\r\n"
        ) % (status, _REASONS.get(status, b"Unknown"), self._date)
        self._prefixes[status] = prefix
        return prefix
