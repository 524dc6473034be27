"""Cross-origin access for browsers: off unless origins are configured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from millstream.server.http import Response

ALLOWED_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
"""Methods a page of an allowed origin may use."""

ALLOWED_HEADERS: Final = (
    "Content-Type",
    "Auth",
    "Authorization",
    "If-Match",
    "If-None-Match",
    "Last-Event-ID",
    "Stream-Seq",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-Closed",
    "Stream-Cursor",
    "Stream-Forked-From",
    "Stream-Fork-Offset",
    "Stream-Fork-Sub-Offset",
    "Producer-Id",
    "Producer-Epoch",
    "Producer-Seq",
)
"""Request headers such a page may set."""

EXPOSED_HEADERS: Final = (
    "Stream-Next-Offset",
    "Stream-Cursor",
    "Stream-Up-To-Date",
    "Stream-Closed",
    "Stream-Seq",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-SSE-Data-Encoding",
    "Stream-Forked-From",
    "Stream-Fork-Offset",
    "Stream-Fork-Sub-Offset",
    "Producer-Epoch",
    "Producer-Seq",
    "Producer-Expected-Seq",
    "Producer-Received-Seq",
    "ETag",
    "Location",
    "Content-Type",
    "Content-Length",
    "Content-Encoding",
    "Cache-Control",
    "Retry-After",
    "Vary",
)
"""Response headers such a page may read."""

_PREFLIGHT_AGE_S: Final = 600


class Cors:
    """The configured policy, as ready-made header lines.

    No credentials are ever allowed: the server does not use cookies.
    """

    __slots__ = ("_any", "_lines", "_none")

    def __init__(self, origins: Sequence[str]) -> None:
        """Allow these origins; ``*`` allows every one."""
        exposed = f"access-control-expose-headers: {', '.join(EXPOSED_HEADERS)}\r\n"
        self._lines: dict[bytes, bytes] = {}
        self._any: bytes | None = None
        # What depends on Origin must say so, or a cache hands one origin's answer to another.
        self._none = b"vary: Origin\r\n"
        for origin in origins:
            lines = f"access-control-allow-origin: {origin}\r\n{exposed}".encode("ascii")
            if origin == "*":
                self._any = lines
            else:
                self._lines[origin.encode("ascii")] = lines + self._none

    def lines(self, origin: bytes | None) -> bytes:
        """Return the header lines for an answer to a request from `origin`."""
        if self._any is not None:
            return self._any
        if origin is None:
            return self._none
        return self._lines.get(origin, self._none)

    def preflight(self) -> Response:
        """Return the answer to an OPTIONS request, less what `lines` adds to every answer."""
        return _PREFLIGHT


_PREFLIGHT: Final = Response(
    204,
    (
        (b"access-control-allow-methods", ", ".join(ALLOWED_METHODS).encode()),
        (b"access-control-allow-headers", ", ".join(ALLOWED_HEADERS).encode()),
        (b"access-control-max-age", str(_PREFLIGHT_AGE_S).encode()),
        (b"allow", ", ".join(ALLOWED_METHODS).encode()),
    ),
)
