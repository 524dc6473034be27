"""What a failed try tells a producer about its batch."""

from __future__ import annotations

import copy
from typing import Final, TypeVar

from millstream.client.core.answers import Answer
from millstream.client.core.batches import Batch
from millstream.client.errors import BadRequest, ClientError, DeliveryExpired

# Our server looks at the messages only when the stamp is right, so these prove that it is new.
CONTENT_CODES: Final = frozenset({"invalid_json", "invalid_body", "empty_body", "body_too_large"})
CONTENT_STATUSES: Final = frozenset({400, 413, 422})

Error = TypeVar("Error", bound=ClientError)


def is_about_content(error: ClientError) -> bool:
    """Tell whether the server refused these messages, rather than this producer or stream."""
    if not isinstance(error, BadRequest) or error.status not in CONTENT_STATUSES:
        return False
    # Other servers do not say what is wrong with a request that we know to be well-formed.
    return error.code is None or error.code in CONTENT_CODES


def proves_new(error: ClientError) -> bool:
    """Tell whether a refused batch was not stored by an earlier try either."""
    return error.code in CONTENT_CODES


def is_foreign(batch: Batch, answer: Answer, start_offset: str | None = None) -> bool:
    """Tell whether the server has taken the first batch of an epoch for somebody else's.

    It has if it knew the batch at our first try, or knows later ones than we have sent, or if the
    batch it knows ended at or before ``start_offset``, the tail before we sent anything. If a try
    of ours was lost and none of this tells, it is ours as far as anybody can know.
    """
    if answer.status != 204:
        return False
    if batch.closes:
        return not answer.is_closed
    if not batch.is_lost or (answer.seq or 0) > batch.seq:
        return True
    known = answer.next_offset
    # Offsets sort as text; that is the protocol's promise.
    return known is not None and start_offset is not None and known <= start_offset


def uncertain(error: Error) -> Error:
    """Return a copy of the error for messages that may nevertheless be stored."""
    twin = copy.copy(error)
    twin.message += "; whether the message was stored is not known"
    twin.is_uncertain = True
    return twin


def expired(url: str, timeout_s: float, *, is_uncertain: bool) -> DeliveryExpired:
    """Return the error of messages that were not answered for in time."""
    known = "it may be stored, or be stored yet" if is_uncertain else "it was not stored"
    return DeliveryExpired(
        f"the message was not delivered within {timeout_s:g} s; {known}",
        url=url,
        is_uncertain=is_uncertain,
    )
