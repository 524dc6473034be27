"""Results of the official client suite: what one command came to, as one JSON object."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from millstream.client import errors

Result = dict[str, Any]

# The first class that fits decides, so the narrow ones come first.
CODES: Final[tuple[tuple[type[errors.ClientError], str], ...]] = (
    (errors.BadOption, "INVALID_ARGUMENT"),
    (errors.StreamClosed, "STREAM_CLOSED"),
    (errors.GoneError, "NOT_FOUND"),
    (errors.SequenceConflict, "SEQUENCE_CONFLICT"),
    (errors.CreateConflict, "CONFLICT"),
    (errors.ContentTypeMismatch, "CONFLICT"),
    (errors.Conflict, "CONFLICT"),
    (errors.OffsetConflict, "CONFLICT"),
    (errors.BadOffset, "INVALID_OFFSET"),
    (errors.OffsetGone, "INVALID_OFFSET"),
    (errors.ParseError, "PARSE_ERROR"),
    (errors.BadMessage, "PARSE_ERROR"),
    (errors.NetworkFailed, "NETWORK_ERROR"),
    (errors.Timeout, "TIMEOUT"),
    (errors.DeliveryExpired, "TIMEOUT"),
)

# The suite looks for the names of the TypeScript client in what is wrong with an option.
OPTION_NAMES: Final = {
    "max_retries": "maxRetries",
    "initial_delay_s": "initialDelayMs",
    "max_delay_s": "maxDelayMs",
    "max_batch_bytes": "maxBatchBytes",
    "max_batch_messages": "maxBatchItems",
}


def success(command_type: str, **fields: Any) -> Result:
    """Return the result of a command that worked; fields that are None are left out."""
    given = {name: value for name, value in fields.items() if value is not None}
    return {"type": command_type, "success": True, **given}


def failure(command_type: str, error: BaseException) -> Result:
    """Return the result of a command that failed."""
    status = error.status if isinstance(error, errors.ClientError) else None
    result = {
        "type": "error",
        "success": False,
        "commandType": command_type,
        "errorCode": code_of(error),
        "message": _message(error),
    }
    return result if status is None else {**result, "status": status}


def code_of(error: BaseException) -> str:
    """Return the suite's word for an error."""
    for kind, code in CODES:
        if isinstance(error, kind):
            return code
    if isinstance(error, errors.ClientError) and error.status is not None:
        return "UNEXPECTED_STATUS"
    if isinstance(error, msgspec.MsgspecError):
        return "NOT_SUPPORTED"
    return "INTERNAL_ERROR"


def _message(error: BaseException) -> str:
    text = str(error) or type(error).__name__
    if isinstance(error, errors.BadOption):
        for ours, theirs in OPTION_NAMES.items():
            text = text.replace(ours, theirs)
    return text
