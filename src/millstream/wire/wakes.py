"""Subscriptions and wakes as JSON, in the protocol's own shapes."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from millstream.core.errors import Code, Refused
from millstream.core.subscriptions.commands import (
    Acked,
    Claimed,
    Delivery,
    LinkFacts,
    SubscriptionFacts,
)
from millstream.wire.fields import rfc3339
from millstream.wire.problem import Rendered, document, protocol_headers
from millstream.wire.subscriptions import JWKS_PATH, SUBSCRIPTIONS_ROOT

JSON_TYPE = b"application/json"
JWKS_TYPE = b"application/jwk-set+json"

_NO_STORE = (b"cache-control", b"no-store")
_PROTOCOL_CODES = {
    Code.UNAUTHORIZED: "TOKEN_INVALID",
    Code.SUBSCRIPTION_EXISTS: "SUBSCRIPTION_ALREADY_EXISTS",
    Code.INVALID_BODY: "INVALID_REQUEST",
    Code.INVALID_JSON: "INVALID_REQUEST",
    Code.EMPTY_BODY: "INVALID_REQUEST",
    Code.INVALID_HEADER: "INVALID_REQUEST",
    Code.INVALID_PATH: "INVALID_REQUEST",
    Code.BAD_REQUEST: "INVALID_REQUEST",
}
"""Where the protocol's name for an error is not just ours in upper case."""

_encoder = msgspec.json.Encoder()


def render_subscription(facts: SubscriptionFacts, base_url: str, kid: str) -> Rendered:
    """Return the whole subscription; 201 when it was just made."""
    config = facts.config
    webhook: dict[str, object] | None = None
    if config.webhook_url is not None:
        jwks_url = base_url + JWKS_PATH.decode()
        webhook = {
            "url": config.webhook_url,
            "signing": {"alg": "ed25519", "kid": kid, "jwks_url": jwks_url},
        }
    return _json(
        201 if facts.is_new else 200,
        {
            "id": facts.sub_id,
            "subscription_id": facts.sub_id,
            "type": config.kind,
            "pattern": config.pattern,
            "streams": [_cursor(link) for link in facts.links],
            "webhook": webhook,
            "wake_stream": config.wake_stream,
            "lease_ttl_ms": config.lease_ttl_ms,
            "created_at": rfc3339(facts.created_ms),
            "status": "failed" if facts.is_failing else "active",
            "description": config.description,
        },
    )


def render_claim(claimed: Claimed, token: str) -> Rendered:
    """Return what a worker needs to work on its wake."""
    return _json(
        200,
        {
            "wake_id": claimed.wake_id,
            "generation": claimed.generation,
            "token": token,
            "streams": [_stream(link) for link in claimed.links],
            "lease_ttl_ms": claimed.lease_ttl_ms,
        },
    )


def render_acked(acked: Acked) -> Rendered:
    """Return that the acks are stored."""
    return _json(200, {"ok": True, "next_wake": acked.is_next_wake})


def render_nothing() -> Rendered:
    """Return that it is so, with nothing to tell."""
    return Rendered(204, [_NO_STORE], b"")


def render_refusal(refused: Refused) -> Rendered:
    """Return a refusal in both shapes at once: the problem document's and the protocol's."""
    code = refused.code
    error: dict[str, object] = {
        "code": _PROTOCOL_CODES.get(code, code.code.upper()),
        "message": refused.detail,
    }
    if refused.holder is not None:
        error["current_holder"] = refused.holder
    if refused.generation is not None:
        error["generation"] = refused.generation
    headers = [(b"content-type", JSON_TYPE), _NO_STORE, *protocol_headers(refused)]
    return Rendered(code.status, headers, _encoder.encode(document(refused) | {"error": error}))


def render_jwks(jwks: bytes) -> Rendered:
    """Return the public keys that webhooks are signed with."""
    headers = [(b"content-type", JWKS_TYPE), (b"cache-control", b"public, max-age=300")]
    return Rendered(200, headers, jwks)


def delivery_body(delivery: Delivery, base_url: str, token: str) -> bytes:
    """Return the body of a webhook request."""
    root = base_url + SUBSCRIPTIONS_ROOT.decode()
    return _encoder.encode(
        {
            "subscription_id": delivery.sub_id,
            "wake_id": delivery.wake_id,
            "generation": delivery.generation,
            "streams": [_stream(link) for link in delivery.links],
            "callback_url": f"{root}{quote(delivery.sub_id, safe='')}/callback",
            "callback_token": token,
        }
    )


def is_done(body: bytes) -> bool:
    """Tell whether a webhook's answer says that all it was sent is processed."""
    try:
        return msgspec.json.decode(body, type=_Answer).done
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False


class _Answer(msgspec.Struct, frozen=True):
    done: bool = False


def _cursor(link: LinkFacts) -> dict[str, object]:
    return {
        "path": link.path,
        "link_type": "explicit" if link.is_explicit else "glob",
        "acked_offset": link.acked.text(),
    }


def _stream(link: LinkFacts) -> dict[str, object]:
    return {
        **_cursor(link),
        "tail_offset": link.tail.text(),
        "has_pending": link.has_pending,
    }


def _json(status: int, value: dict[str, object]) -> Rendered:
    return Rendered(status, [(b"content-type", JSON_TYPE), _NO_STORE], _encoder.encode(value))
