"""The routes of subscriptions, for the OpenAPI document and the documentation."""

from __future__ import annotations

from typing import Final

from millstream.server.routes import Answer, Body, Parameter, Route
from millstream.wire.subscriptions import ID_BYTES_MAX, LEASE_MS_MAX, LEASE_MS_MIN

_JSON: Final = "application/json"
_ROOT: Final = "/v1/stream/__ds"
_SUBSCRIPTION: Final = f"{_ROOT}/subscriptions/{{id}}"

_TEXT: Final[dict[str, object]] = {"type": "string", "minLength": 1, "maxLength": 1024}
_ID: Final = Parameter(
    name="id",
    place="path",
    text="The subscription's id, chosen by its creator.",
    is_required=True,
    schema={"type": "string", "minLength": 1, "maxLength": ID_BYTES_MAX},
)
_PATH: Final = Parameter(
    name="path",
    place="path",
    text="The path of a linked stream.",
    is_required=True,
    schema=_TEXT,
)
_TOKEN: Final = Parameter(
    name="Authorization", place="header", text="`Bearer` and the token of the wake."
)
_WAKE: Final[dict[str, object]] = {
    "wake_id": {"type": "string"},
    "generation": {"type": "integer", "minimum": 0},
}
_ACKS: Final[dict[str, object]] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["stream", "offset"],
        "properties": {"stream": _TEXT, "offset": {"type": "string"}},
    },
}
_CONFIG: Final[dict[str, object]] = {
    "type": "object",
    "required": ["type"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["webhook", "pull-wake"]},
        "pattern": _TEXT,
        "streams": {"type": "array", "items": _TEXT},
        "webhook": {
            "type": "object",
            "required": ["url"],
            "additionalProperties": False,
            "properties": {"url": {"type": "string", "minLength": 1, "maxLength": 2048}},
        },
        "wake_stream": _TEXT,
        "lease_ttl_ms": {"type": "integer", "minimum": LEASE_MS_MIN, "maximum": LEASE_MS_MAX},
        "description": {"type": "string", "maxLength": 4096},
    },
}


def _answer(status: int, text: str) -> Answer:
    return Answer(status=status, text=text, media_type=_JSON)


_BAD: Final = _answer(400, "The id, a header or the body is not valid; the field is named.")
_STRANGE: Final = _answer(401, "The token is not one of this subscription and this call.")
_MISSING: Final = _answer(404, "There is no such subscription.")
_BUSY: Final = _answer(503, "Overloaded, out of room, or stopping; see Retry-After.")
_COMMON: Final = (_BAD, _MISSING, _BUSY)


def _body(text: str, required: list[str], properties: dict[str, object]) -> Body:
    schema: dict[str, object] = {"type": "object", "required": required, "properties": properties}
    return Body(text=text, media_type=_JSON, is_required=True, schema=schema)


def _route(method: str, action: str, handler: str, summary: str, *rest: Answer | Body) -> Route:
    """Return a route of one subscription; a token is asked for where 401 is an answer."""
    answers = tuple(each for each in rest if isinstance(each, Answer))
    body = next((each for each in rest if isinstance(each, Body)), None)
    parameters = (_ID, *((_PATH,) if "{path" in action else ()))
    if _STRANGE in answers:
        parameters += (_TOKEN,)
    return Route(
        method=method,
        path=_SUBSCRIPTION + action,
        handler=handler,
        summary=summary,
        tag="subscriptions",
        parameters=parameters,
        body=body,
        answers=(*answers, *_COMMON),
    )


_ACK_BODY: Final = _body(
    "Which wake, how far, and whether that was all.",
    ["wake_id", "generation"],
    {**_WAKE, "acks": _ACKS, "done": {"type": "boolean"}},
)

SUBSCRIPTIONS: Final[tuple[Route, ...]] = (
    _route(
        "PUT",
        "",
        "create_subscription",
        "Create a subscription, or confirm that it is there",
        Body(text="The set-up.", media_type=_JSON, is_required=True, schema=_CONFIG),
        _answer(201, "Created."),
        _answer(200, "It was there, just so."),
        _answer(409, "It is there with another set-up."),
    ),
    _route("GET", "", "get_subscription", "Show a subscription", _answer(200, "All about it.")),
    _route(
        "DELETE",
        "",
        "delete_subscription",
        "Remove a subscription and fence what is in flight",
        Answer(status=204, text="Removed."),
    ),
    _route(
        "POST",
        "/streams",
        "link_streams",
        "Link streams by name, at their tails",
        _body("The streams.", ["streams"], {"streams": {"type": "array", "items": _TEXT}}),
        Answer(status=204, text="Linked."),
    ),
    _route(
        "DELETE",
        "/streams/{path:path}",
        "unlink_stream",
        "Remove a link by name; one by pattern stays",
        Answer(status=204, text="Not linked by name any more."),
    ),
    _route(
        "POST",
        "/claim",
        "claim_wake",
        "Hold the wake of a pull-wake subscription",
        _body("Who claims.", ["worker"], {"worker": {"type": "string", "minLength": 1}}),
        _answer(200, "The wake, its token and its streams."),
        _answer(409, "Somebody holds it, or nothing is pending."),
    ),
    *(
        _route(
            "POST",
            f"/{action}",
            f"{action}_wake",
            summary,
            _ACK_BODY,
            _answer(200, "Stored; next_wake tells that another wake follows."),
            _answer(409, "Fenced: the wake is over."),
            _STRANGE,
        )
        for action, summary in (
            ("callback", "Ack, extend or end the wake of a webhook"),
            ("ack", "Ack, extend or end a claimed wake"),
        )
    ),
    _route(
        "POST",
        "/release",
        "release_wake",
        "Give a claimed wake back",
        _body("Which wake.", ["wake_id", "generation"], _WAKE),
        Answer(status=204, text="Given back."),
        _answer(409, "Fenced: the wake is over."),
        _STRANGE,
    ),
    Route(
        method="GET",
        path=f"{_ROOT}/jwks.json",
        handler="jwks",
        summary="The public keys that webhooks are signed with",
        tag="subscriptions",
        answers=(Answer(status=200, text="A JWK Set.", media_type="application/jwk-set+json"),),
    ),
)
"""Routes below the reserved prefix."""
