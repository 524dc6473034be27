"""Subscription requests: URL paths and JSON bodies to commands, or refusals that name the field."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import Meta

from millstream.core import media
from millstream.core.errors import Code, Refused
from millstream.core.offsets import parse_offset
from millstream.core.subscriptions import glob
from millstream.core.subscriptions.commands import Ack, AckWake, Grant, ReleaseWake
from millstream.core.subscriptions.events import SubscriptionConfig
from millstream.wire.fields import media_type, refuse_header
from millstream.wire.names import STREAM_ROOT, check_name

if TYPE_CHECKING:
    from collections.abc import Mapping

CONTROL_ROOT = STREAM_ROOT + b"__ds"
SUBSCRIPTIONS_ROOT = CONTROL_ROOT + b"/subscriptions/"
JWKS_PATH = CONTROL_ROOT + b"/jwks.json"

LEASE_MS_MIN = 1_000
LEASE_MS_MAX = 600_000
LEASE_MS_DEFAULT = 30_000
ID_BYTES_MAX = 256
ITEMS_MAX = 10_000
"""Most streams, or acks, in one request."""

Name = Annotated[str, Meta(min_length=1, max_length=1024)]
Generation = Annotated[int, Meta(ge=0, le=2**53 - 1)]


class WebhookBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where wakes are posted to."""

    url: Annotated[str, Meta(min_length=1, max_length=2048)]


class CreateBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """PUT of a subscription."""

    type: Literal["webhook", "pull-wake"]
    pattern: Name | None = None
    streams: Annotated[tuple[Name, ...], Meta(max_length=ITEMS_MAX)] | None = None
    webhook: WebhookBody | None = None
    wake_stream: Name | None = None
    lease_ttl_ms: Annotated[int, Meta(ge=LEASE_MS_MIN, le=LEASE_MS_MAX)] = LEASE_MS_DEFAULT
    description: Annotated[str, Meta(max_length=4096)] | None = None


class StreamsBody(msgspec.Struct, frozen=True):
    """POST of explicit links."""

    streams: Annotated[tuple[Name, ...], Meta(min_length=1, max_length=ITEMS_MAX)]


class ClaimBody(msgspec.Struct, frozen=True):
    """POST of a claim."""

    worker: Annotated[str, Meta(min_length=1, max_length=256)]


class AckItem(msgspec.Struct, frozen=True):
    """One cursor to move."""

    stream: Name
    offset: str


class AckBody(msgspec.Struct, frozen=True):
    """POST of acks, by callback or by claim."""

    wake_id: str
    generation: Generation
    acks: Annotated[tuple[AckItem, ...], Meta(max_length=ITEMS_MAX)] | None = None
    done: bool = False


class ReleaseBody(msgspec.Struct, frozen=True):
    """POST of a release."""

    wake_id: str
    generation: Generation


class Target(msgspec.Struct, frozen=True):
    """What a URL below the subscriptions' root names.

    ``action`` is empty for the subscription itself; ``path`` is the stream of a link, or None.
    """

    sub_id: str
    action: str = ""
    path: str | None = None


T = TypeVar("T")

_ACTIONS = frozenset({b"streams", b"callback", b"claim", b"ack", b"release"})
_PLACE = re.compile(r" - at `\$\.?([^`]*)`$")
_NAMED_FIELD = re.compile(r"field `([^`]*)`")


def parse_target(raw_path: bytes) -> Target | Refused | None:
    """Return what a raw URL path names, None when it names nothing below the subscriptions."""
    if not raw_path.startswith(SUBSCRIPTIONS_ROOT):
        return None
    raw_id, *rest = raw_path[len(SUBSCRIPTIONS_ROOT) :].split(b"/", 2)
    if rest and rest[0] not in _ACTIONS:
        return None
    sub_id = _sub_id(raw_id)
    if isinstance(sub_id, Refused):
        return sub_id
    if not rest:
        return Target(sub_id)
    action = rest[0].decode()
    if len(rest) == 1:
        return Target(sub_id, action)
    if action != "streams":
        return None
    path = _decoded(rest[1])
    name = check_name(path.strip("/")) if path is not None else None
    if name is None or isinstance(name, Refused):
        return name or Refused(code=Code.INVALID_PATH, detail="the stream path must be UTF-8")
    return Target(sub_id, action, name)


def parse_body(kind: type[T], headers: Mapping[bytes, bytes], body: bytes) -> T | Refused:
    """Return a request's JSON body as ``kind``; a refusal names the field and the rule."""
    content_type = media_type(headers.get(b"content-type"))
    if content_type is None or not media.is_json(content_type):
        return refuse_header("Content-Type", "must be application/json")
    if not body:
        return Refused(code=Code.EMPTY_BODY, detail="a JSON object is expected", field="body")
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        return _invalid(str(error))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Refused(code=Code.INVALID_JSON, detail=f"the body is not JSON: {error}")


def config_of(body: CreateBody) -> SubscriptionConfig | Refused:
    """Return the set-up a PUT asks for, normalised: only what its type uses, names in order."""
    streams = _names(body.streams or (), "streams")
    if isinstance(streams, Refused):
        return streams
    pattern = body.pattern.strip("/") if body.pattern is not None else None
    if pattern is not None and (refusal := _check_pattern(pattern)) is not None:
        return refusal
    if pattern is None and not streams:
        return _refuse("streams", "pattern or streams must be given, to say what to watch")
    url, wake_stream = None, None
    if body.type == "webhook":
        if body.webhook is None:
            return _refuse("webhook", "webhook.url is required for type webhook")
        url = body.webhook.url
    else:
        if body.wake_stream is None:
            return _refuse("wake_stream", "wake_stream is required for type pull-wake")
        found = _names((body.wake_stream,), "wake_stream")
        if isinstance(found, Refused):
            return found
        wake_stream = found[0]
        if wake_stream in streams:
            return _refuse("streams", "a subscription cannot watch its own wake stream")
    return SubscriptionConfig(
        body.type,
        pattern,
        tuple(sorted(streams)),
        url,
        wake_stream,
        body.lease_ttl_ms,
        body.description,
    )


def names_of(body: StreamsBody) -> tuple[str, ...] | Refused:
    """Return the stream paths to link."""
    return _names(body.streams, "streams")


def ack_of(sub_id: str, grant: Grant, body: AckBody) -> AckWake | Refused:
    """Return the command of an ack."""
    acks = []
    for number, item in enumerate(body.acks or ()):
        position = parse_offset(item.offset)
        if position is None or position.is_point_in_time:
            return Refused(
                code=Code.INVALID_OFFSET,
                detail=f"{item.offset!r} is not the offset of a message",
                field=f"acks[{number}].offset",
            )
        acks.append(Ack(item.stream.strip("/"), position))
    return AckWake(sub_id, grant, body.wake_id, body.generation, tuple(acks), body.done)


def release_of(sub_id: str, grant: Grant, body: ReleaseBody) -> ReleaseWake:
    """Return the command of a release."""
    return ReleaseWake(sub_id, grant, body.wake_id, body.generation)


def bearer(headers: Mapping[bytes, bytes]) -> bytes | Refused:
    """Return the token of the Authorization header."""
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not token:
        return Refused(
            code=Code.UNAUTHORIZED,
            detail="Authorization: Bearer <token of this wake> is required",
            field="Authorization",
        )
    return token


def _sub_id(raw: bytes) -> str | Refused:
    text = _decoded(raw)
    if text is None or not text or len(raw) > ID_BYTES_MAX * 3 or len(text) > ID_BYTES_MAX:
        rule = f"it must be 1 to {ID_BYTES_MAX} characters of UTF-8"
    elif "/" in text or "\\" in text or text in (".", "..") or not text.isprintable():
        rule = "it must not contain slashes or control characters"
    else:
        return text
    return Refused(
        code=Code.INVALID_PATH, detail=f"the subscription id is not valid: {rule}", field="id"
    )


def _decoded(raw: bytes) -> str | None:
    try:
        return unquote_to_bytes(raw).decode("utf-8")
    except UnicodeDecodeError:
        return None


def _names(paths: tuple[str, ...], field: str) -> tuple[str, ...] | Refused:
    names: dict[str, None] = {}
    for path in paths:
        name = check_name(path.strip("/"))
        if isinstance(name, Refused):
            return _refuse(field, f"{path!r}: {name.detail}")
        names[name] = None
    return tuple(names)


def _check_pattern(pattern: str) -> Refused | None:
    name = check_name(pattern)
    if isinstance(name, Refused):
        return _refuse("pattern", f"{pattern!r}: {name.detail}")
    fault = glob.fault(pattern)
    return _refuse("pattern", f"{pattern!r} is not a glob: {fault}") if fault else None


def _invalid(message: str) -> Refused:
    """Turn a decoder's message into a refusal that names the field."""
    place = _PLACE.search(message)
    field = place.group(1) if place else ""
    rule = message[: place.start()] if place else message
    named = _NAMED_FIELD.search(rule)
    if named:
        field = f"{field}.{named.group(1)}" if field else named.group(1)
    return _refuse(field or "body", rule[:1].lower() + rule[1:])


def _refuse(field: str, rule: str) -> Refused:
    return Refused(code=Code.INVALID_BODY, detail=f"{field}: {rule}", field=field)
