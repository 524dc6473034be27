"""What every handler works with, made once at the start."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, NamedTuple

from millstream.core.errors import Code, Refused
from millstream.server.http import Response
from millstream.wire.problem import Rendered, render
from millstream.wire.read import CURSOR_JITTER_MAX, next_cursor

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.engine.engine import Engine
    from millstream.server.http import Request
    from millstream.server.settings import Settings


class Context(NamedTuple):
    """The engine, the settings, and who follows a stream live right now."""

    engine: Engine
    settings: Settings
    live: set[Callable[[], None]]
    """One callback for each long-poll and SSE session: ends it (graceful stop)."""

    def cursor(self, seen: int | None) -> int:
        """Return the cursor for a live answer to a client that has seen ``seen``."""
        # Only a client that comes back needs jitter, so the fan-out does not pay for it.
        jitter = 1 if seen is None else 1 + secrets.randbelow(CURSOR_JITTER_MAX)
        return next_cursor(self.engine.clock.now_ms(), seen, jitter)


def respond(rendered: Rendered) -> Response:
    """Return what the wire layer rendered as the edge's response."""
    return Response(rendered.status, rendered.headers, rendered.body)


def refuse(refused: Refused) -> Response:
    """Return a refusal as the edge's response."""
    return respond(render(refused))


def other_method(request: Request, allow: bytes) -> Response:
    """Return the answer to a method that a path does not take: which ones it does take."""
    if request.method == "OPTIONS":
        return Response(204, ((b"allow", allow),))
    answer = refuse(
        Refused(
            code=Code.METHOD_NOT_ALLOWED,
            detail=f"{request.method} does not apply here; {allow.decode()} do",
        )
    )
    return Response(answer.status, (*answer.headers, (b"allow", allow)), answer.body)
