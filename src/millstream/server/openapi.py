"""The OpenAPI 3.1 document, made from the route table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from millstream.server.routes import Answer, Body, Parameter, Route

_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?::path)?\}")

_PROBLEM: Final[dict[str, Any]] = {
    "type": "object",
    "description": "RFC 9457 problem document with a stable code.",
    "required": ["type", "title", "status", "code", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
    },
}

_EDGE_ANSWERS: Final = (
    Answer(status=400, text="The request is malformed."),
    Answer(status=408, text="The request came too slowly."),
    Answer(status=413, text="The body is larger than body_bytes_max."),
    Answer(status=414, text="The request target is longer than uri_bytes_max."),
    Answer(status=415, text="The body has a content encoding; only identity is taken."),
    Answer(status=431, text="The header is larger than header_bytes_max or header_count_max."),
    Answer(status=503, text="Too many connections, or stopping; see Retry-After."),
)
"""What the edge may answer on every route, before a handler sees the request."""

_ANY: Final = "*/*"
_EXAMPLES_OF_ANY: Final = ("application/json", "application/octet-stream", "text/plain")


def document(
    routes: Sequence[Route], version: str, server_url: str | None = None
) -> dict[str, Any]:
    """Return the whole document as plain data.

    Raises ValueError if a route is in the table twice, or its path parameters are not described.
    """
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        item = paths.setdefault(_PLACEHOLDER.sub(r"{\1}", route.path), {})
        method = route.method.lower()
        if method in item:
            raise ValueError(f"{route.method} {route.path} is in the route table twice")
        item[method] = _operation(route)
    result: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "Millstream",
            "version": version,
            "description": "A durable event-stream server.",
        },
        "paths": paths,
        "components": {"schemas": {"Problem": _PROBLEM}},
    }
    if server_url is not None:
        result["servers"] = [{"url": server_url}]
    return result


def _operation(route: Route) -> dict[str, Any]:
    described = {p.name for p in route.parameters if p.place == "path"}
    named = set(_PLACEHOLDER.findall(route.path))
    if described != named:
        raise ValueError(f"{route.path}: path parameters {named} are described as {described}")
    operation: dict[str, Any] = {
        "operationId": f"{route.handler}_{route.method.lower()}",
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {},
    }
    if route.parameters:
        operation["parameters"] = [_parameter(parameter) for parameter in route.parameters]
    if route.body is not None:
        operation["requestBody"] = {
            "description": route.body.text,
            "required": route.body.is_required,
            "content": {kind: {"schema": route.body.schema} for kind in _kinds(route.body)},
        }
    # A route's own words about a status come after, and so instead of, the edge's.
    for answer in (*_EDGE_ANSWERS, *route.answers):
        operation["responses"][str(answer.status)] = _response(answer, route.method)
    return operation


def _kinds(body: Body) -> tuple[str, ...]:
    """Return the media types of a body; those who cannot send any type get some to choose from."""
    return (*_EXAMPLES_OF_ANY, _ANY) if body.media_type == _ANY else (body.media_type,)


def _parameter(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": parameter.place,
        "description": parameter.text,
        "required": parameter.is_required or parameter.place == "path",
        "schema": parameter.schema,
    }


def _response(answer: Answer, method: str) -> dict[str, Any]:
    response: dict[str, Any] = {"description": answer.text}
    if method != "HEAD":
        if answer.media_type is not None:
            response["content"] = {answer.media_type: {}}
        elif answer.status >= 400:
            reference = {"$ref": "#/components/schemas/Problem"}
            response["content"] = {"application/problem+json": {"schema": reference}}
    if answer.headers:
        response["headers"] = {name: {"schema": {"type": "string"}} for name in answer.headers}
    return response
