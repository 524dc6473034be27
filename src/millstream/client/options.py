"""Options of the client as frozen values, checked when they are made; BadOption names the field."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from millstream.client.errors import BadOption

# A header or parameter of the caller: fixed, or asked for before every try (a fresh token).
Value = str | Callable[[], str | Awaitable[str]]
Values = Mapping[str, Value]


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How long to go on trying when the network or the server fails.

    The n-th delay is drawn between 0 and ``initial_delay_s * multiplier ** n``, at most
    ``max_delay_s``, but is never shorter than the server's ``Retry-After``. Trying ends after
    ``max_retries`` retries or when the next one would begin later than ``deadline_s`` after the
    first try; None means no such limit. A reader starts counting again whenever data arrives.
    """

    max_retries: int | None = 10
    initial_delay_s: float = 0.1
    max_delay_s: float = 10.0
    multiplier: float = 2.0
    deadline_s: float | None = 60.0

    def __post_init__(self) -> None:
        """Check every field; raises BadOption."""
        if self.max_retries is not None and self.max_retries < 0:
            raise BadOption("max_retries must not be negative")
        if not (self.initial_delay_s > 0 and math.isfinite(self.initial_delay_s)):
            raise BadOption("initial_delay_s must be greater than 0")
        if not (self.max_delay_s >= self.initial_delay_s and math.isfinite(self.max_delay_s)):
            raise BadOption("max_delay_s must not be less than initial_delay_s")
        if not (self.multiplier >= 1 and math.isfinite(self.multiplier)):
            raise BadOption("multiplier must be at least 1")
        if self.deadline_s is not None and not self.deadline_s > 0:
            raise BadOption("deadline_s must be greater than 0")


NO_RETRY = Retry(max_retries=0)


def checked_timeout(timeout_s: float) -> float:
    """Return the time-out if it is one; raises BadOption."""
    if not (timeout_s > 0 and math.isfinite(timeout_s)):
        raise BadOption("timeout_s must be greater than 0")
    return timeout_s


def checked_url(url: str) -> str:
    """Return the server's URL if it is one; raises BadOption."""
    if not url.startswith(("http://", "https://")):
        raise BadOption("url must start with http:// or https://")
    return url
