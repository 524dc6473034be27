"""The route table: what the server answers to, as data.

The router, the OpenAPI document and the documentation are all made from it.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec


class Parameter(msgspec.Struct, frozen=True, kw_only=True):
    """A path, query or header parameter of a route."""

    name: str
    place: Literal["path", "query", "header"]
    text: str
    is_required: bool = False
    schema: dict[str, object] = msgspec.field(default_factory=lambda: {"type": "string"})


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """One status a route may answer with; 4xx and 5xx without media type are problem documents."""

    status: int
    text: str
    media_type: str | None = None
    headers: tuple[str, ...] = ()


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The request body of a route."""

    text: str
    media_type: str = "*/*"
    is_required: bool = False
    schema: dict[str, object] = msgspec.field(default_factory=dict)


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One method on one path template; ``{name}`` is one segment, ``{name:path}`` the rest."""

    method: str
    path: str
    handler: str
    """Name under which the assembly registers the handler."""
    summary: str
    tag: str
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    answers: tuple[Answer, ...]


OPERATIONS: Final[tuple[Route, ...]] = (
    Route(
        method="GET",
        path="/healthz",
        handler="healthz",
        summary="Tell that the process is alive",
        tag="operations",
        answers=(Answer(status=200, text="Alive.", media_type="application/json"),),
    ),
    Route(
        method="GET",
        path="/readyz",
        handler="readyz",
        summary="Tell whether the server takes reads and writes, and why not",
        tag="operations",
        answers=(
            Answer(status=200, text="Ready.", media_type="application/json"),
            Answer(status=503, text="Not ready, with reasons.", media_type="application/json"),
        ),
    ),
    Route(
        method="GET",
        path="/metrics",
        handler="metrics",
        summary="Metrics as Prometheus text",
        tag="operations",
        answers=(Answer(status=200, text="The scrape.", media_type="text/plain"),),
    ),
    Route(
        method="GET",
        path="/openapi.json",
        handler="openapi",
        summary="This document",
        tag="operations",
        answers=(Answer(status=200, text="OpenAPI 3.1.", media_type="application/json"),),
    ),
)
"""Routes for operating the server."""
