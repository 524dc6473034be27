"""Refusals as HTTP answers: the one map from codes to statuses, headers and problem documents."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from millstream.core.errors import Code, Refused

PROBLEM_TYPE = b"application/problem+json"

_encoder = msgspec.json.Encoder()


class Rendered(NamedTuple):
    """A whole HTTP answer."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


def render(refused: Refused) -> Rendered:
    """Return the problem document of a refusal, with the protocol's own headers beside it."""
    headers = [(b"content-type", PROBLEM_TYPE), (b"cache-control", b"no-store")]
    headers.extend(protocol_headers(refused))
    return Rendered(refused.code.status, headers, _encoder.encode(document(refused)))


def document(refused: Refused) -> dict[str, object]:
    """Return the members of the problem document."""
    code = refused.code
    members: dict[str, object] = {
        "type": f"urn:millstream:problem:{code.code}",
        "title": code.title,
        "status": code.status,
        "code": code.code,
        "detail": refused.detail,
        "remedy": code.remedy.value,
    }
    if refused.field is not None:
        members["field"] = refused.field
    if refused.next_offset is not None:
        members["next_offset"] = refused.next_offset
    if refused.version is not None:
        # The members of the dialect that versions belong to; its clients look for them.
        members["error"] = refused.detail
        members["current_version"] = refused.version
        members["provided_version"] = refused.version_given
    return members


def protocol_headers(refused: Refused) -> list[tuple[bytes, bytes]]:
    """Return the headers that tell the same as the document, for clients that read no bodies."""
    headers: list[tuple[bytes, bytes]] = []
    if refused.next_offset is not None:
        headers.append((b"stream-next-offset", refused.next_offset.encode()))
    if refused.is_closed:
        headers.append((b"stream-closed", b"true"))
    if refused.epoch is not None:
        headers.append((b"producer-epoch", b"%d" % refused.epoch))
    if refused.seq_expected is not None:
        headers.append((b"producer-expected-seq", b"%d" % refused.seq_expected))
    if refused.seq_received is not None:
        headers.append((b"producer-received-seq", b"%d" % refused.seq_received))
    if refused.retry_after_s is not None:
        headers.append((b"retry-after", b"%d" % refused.retry_after_s))
    return headers


def by_code(code: str) -> Code:
    """Return the refusal code with this stable name. Raises KeyError for an unknown one."""
    return _BY_CODE[code]


_BY_CODE = {member.code: member for member in Code}
