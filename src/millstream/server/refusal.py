"""What the edge itself refuses, before any handler sees the request."""

from __future__ import annotations

from collections.abc import Callable

from millstream.core.errors import Refused
from millstream.server.http import Response
from millstream.wire.problem import by_code, render

RETRY_AFTER_S = 1
"""What the edge puts into Retry-After when it refuses for lack of room."""

Problem = Callable[[str, str], Response]
"""Makes a problem document from a stable code and a sentence for the client."""


class Refusal(Exception):
    """The request cannot be served; the connection ends after saying so."""

    def __init__(self, code: str, detail: str) -> None:
        """Refuse with a stable problem code and one sentence for the client."""
        super().__init__(code, detail)
        self.code = code
        self.detail = detail


def problem(code: str, detail: str) -> Response:
    """Make the problem document of a refusal of the edge; 503 comes with Retry-After."""
    known = by_code(code)
    retry_after_s = RETRY_AFTER_S if known.status == 503 else None
    return Response(*render(Refused(code=known, detail=detail, retry_after_s=retry_after_s)))
