"""Everything below ``/v1/stream/__ds``: subscriptions, their wakes, and the signing key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from millstream.core.errors import Code, Refused
from millstream.core.subscriptions.commands import (
    Acked,
    Claimed,
    ClaimWake,
    CreateSubscription,
    DeleteSubscription,
    GetSubscription,
    Grant,
    LinkStreams,
    SubscriptionCommand,
    SubscriptionFacts,
    UnlinkStream,
)
from millstream.server.context import respond
from millstream.server.http import Response
from millstream.server.keys import CALLBACK, CLAIM, Keys
from millstream.server.webhooks import guard_of
from millstream.wire import subscriptions as wire
from millstream.wire import wakes
from millstream.wire.problem import Rendered

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.server.alarms import Desk
    from millstream.server.http import Reply, Request
    from millstream.server.settings import Settings
    from millstream.wire.subscriptions import Target

    Parse = Callable[["SubscriptionDoor", Target, Request], SubscriptionCommand | Refused]


class SubscriptionDoor:
    """The handler of the control API: parse, submit, render what comes back."""

    def __init__(self, desk: Desk, keys: Keys, settings: Settings) -> None:
        """Serve subscriptions of one engine, with its keys."""
        self._desk = desk
        self._keys = keys
        self._public_url = settings.public_url
        self.guard = guard_of(settings)
        """Where webhooks may go."""

    def __call__(self, request: Request, reply: Reply) -> None:
        """Handle one request below the control root."""
        if request.path == wire.JWKS_PATH:
            reply.send(self._jwks(request))
            return
        target = wire.parse_target(request.path)
        if target is None:
            detail = "there is no such control route"
            reply.send(_refuse(Refused(code=Code.ROUTE_NOT_FOUND, detail=detail)))
            return
        if isinstance(target, Refused):
            reply.send(_refuse(target))
            return
        name = "link" if target.path is not None else target.action
        parse = _ROUTES[name].get(request.method)
        if parse is None:
            reply.send(_other_method(request, (*_ROUTES[name], "OPTIONS")))
            return
        command = parse(self, target, request)
        if isinstance(command, Refused):
            reply.send(_refuse(command))
            return
        base_url = self.base_url(request)
        self._desk.submit(
            command, lambda answer: reply.send(respond(self._render(answer, base_url)))
        )

    def base_url(self, request: Request) -> str:
        """Return the URL that clients reach this server at."""
        return request.base_url(self._public_url)

    def grant(self, request: Request, kind: str, sub_id: str) -> Grant | Refused:
        """Return what the request's token proves for this kind of call on this subscription."""
        token = wire.bearer(request.headers)
        if isinstance(token, Refused):
            return token
        return self._keys.grant(token, kind, sub_id) or Refused(
            code=Code.UNAUTHORIZED,
            detail=f"the token is not a {kind} token of this subscription",
            field="Authorization",
        )

    def _jwks(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return _other_method(request, ("GET", "HEAD", "OPTIONS"))
        return respond(wakes.render_jwks(self._keys.jwks))

    def _render(self, answer: object, base_url: str) -> Rendered:
        match answer:
            case Refused():
                return wakes.render_refusal(answer)
            case SubscriptionFacts():
                return wakes.render_subscription(answer, base_url, self._keys.kid)
            case Claimed():
                grant = Grant(
                    CLAIM, answer.sub_id, answer.sub_no, answer.generation, answer.wake_id
                )
                return wakes.render_claim(answer, self._keys.token(grant))
            case Acked():
                return wakes.render_acked(answer)
            case _:
                return wakes.render_nothing()


def _create(
    door: SubscriptionDoor, target: Target, request: Request
) -> SubscriptionCommand | Refused:
    body = wire.parse_body(wire.CreateBody, request.headers, request.body)
    config = body if isinstance(body, Refused) else wire.config_of(body)
    if isinstance(config, Refused):
        return config
    if config.webhook_url is not None:
        allowed = door.guard.check_url(config.webhook_url)
        if isinstance(allowed, Refused):
            return allowed
    return CreateSubscription(target.sub_id, config, door.base_url(request))


def _get(_door: SubscriptionDoor, target: Target, _request: Request) -> SubscriptionCommand:
    return GetSubscription(target.sub_id)


def _delete(_door: SubscriptionDoor, target: Target, _request: Request) -> SubscriptionCommand:
    return DeleteSubscription(target.sub_id)


def _link(
    _door: SubscriptionDoor, target: Target, request: Request
) -> SubscriptionCommand | Refused:
    body = wire.parse_body(wire.StreamsBody, request.headers, request.body)
    names = body if isinstance(body, Refused) else wire.names_of(body)
    return names if isinstance(names, Refused) else LinkStreams(target.sub_id, names)


def _unlink(_door: SubscriptionDoor, target: Target, _request: Request) -> SubscriptionCommand:
    assert target.path is not None
    return UnlinkStream(target.sub_id, target.path)


def _claim(
    _door: SubscriptionDoor, target: Target, request: Request
) -> SubscriptionCommand | Refused:
    body = wire.parse_body(wire.ClaimBody, request.headers, request.body)
    return body if isinstance(body, Refused) else ClaimWake(target.sub_id, body.worker)


def _ack_by(kind: str) -> Parse:
    def parse(
        door: SubscriptionDoor, target: Target, request: Request
    ) -> SubscriptionCommand | Refused:
        grant = door.grant(request, kind, target.sub_id)
        if isinstance(grant, Refused):
            return grant
        body = wire.parse_body(wire.AckBody, request.headers, request.body)
        return body if isinstance(body, Refused) else wire.ack_of(target.sub_id, grant, body)

    return parse


def _release(
    door: SubscriptionDoor, target: Target, request: Request
) -> SubscriptionCommand | Refused:
    grant = door.grant(request, CLAIM, target.sub_id)
    if isinstance(grant, Refused):
        return grant
    body = wire.parse_body(wire.ReleaseBody, request.headers, request.body)
    return body if isinstance(body, Refused) else wire.release_of(target.sub_id, grant, body)


_ROUTES: dict[str, dict[str, Parse]] = {
    "": {"PUT": _create, "GET": _get, "DELETE": _delete},
    "streams": {"POST": _link},
    "link": {"DELETE": _unlink},
    "callback": {"POST": _ack_by(CALLBACK)},
    "claim": {"POST": _claim},
    "ack": {"POST": _ack_by(CLAIM)},
    "release": {"POST": _release},
}


def _refuse(refused: Refused) -> Response:
    return respond(wakes.render_refusal(refused))


def _other_method(request: Request, allowed: tuple[str, ...]) -> Response:
    allow = (b"allow", ", ".join(allowed).encode())
    if request.method == "OPTIONS":
        return Response(204, (allow,))
    answer = _refuse(
        Refused(
            code=Code.METHOD_NOT_ALLOWED,
            detail=f"{request.method} does not apply here; {', '.join(allowed)} do",
        )
    )
    return Response(answer.status, (*answer.headers, allow), answer.body)
