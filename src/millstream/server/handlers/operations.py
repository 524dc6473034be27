"""Handlers for those who operate the server: health, readiness, metrics, the API document."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from millstream.server.http import Handler, Reply, Request, Response
from millstream.server.metrics import CONTENT_TYPE, Metrics

Readiness = Callable[[], tuple[bool, Sequence[str]]]
"""Says whether the server takes reads and writes, and if not, every reason."""

_JSON: Final = ((b"content-type", b"application/json"), (b"cache-control", b"no-store"))
_TEXT: Final = ((b"content-type", CONTENT_TYPE), (b"cache-control", b"no-store"))

_ALIVE: Final = Response(200, _JSON, b'{"status":"alive"}')


def healthz(_request: Request, reply: Reply) -> None:
    """Answer as long as the loop turns."""
    reply.send(_ALIVE)


def make_readyz(readiness: Readiness) -> Handler:
    """Return a handler that answers 200 when ready, else 503 with the reasons."""

    def readyz(_request: Request, reply: Reply) -> None:
        is_ready, reasons = readiness()
        if is_ready:
            reply.send(Response(200, _JSON, b'{"status":"ready"}'))
        else:
            body = msgspec.json.encode({"status": "unready", "reasons": list(reasons)})
            reply.send(Response(503, (*_JSON, (b"retry-after", b"1")), body))

    return readyz


def make_metrics(metrics: Metrics) -> Handler:
    """Return a handler that reads every metric at the time of the request."""

    def scrape(_request: Request, reply: Reply) -> None:
        reply.send(Response(200, _TEXT, metrics.render()))

    return scrape


def make_openapi(document: dict[str, Any]) -> Handler:
    """Return a handler for the API document, encoded once."""
    answer = Response(200, _JSON, msgspec.json.encode(document))

    def openapi(_request: Request, reply: Reply) -> None:
        reply.send(answer)

    return openapi
