"""When to try again: growing, jittered delays under a count, a deadline and Retry-After."""

from __future__ import annotations

from typing import Final

from millstream.client.errors import (
    ClientError,
    NetworkFailed,
    RateLimited,
    Timeout,
    Unavailable,
)
from millstream.client.options import Retry

_TRANSIENT: Final = (NetworkFailed, Timeout, Unavailable, RateLimited)


def is_transient(error: ClientError) -> bool:
    """Tell whether the same request may succeed a little later."""
    return isinstance(error, _TRANSIENT)


def may_have_happened(error: ClientError) -> bool:
    """Tell whether the request that failed so may nevertheless have had its effect."""
    return error.is_uncertain


class Backoff:
    """Counts the failures of one piece of work. Time is handed in as ``now``, in seconds.

    ``draw`` is a random number from 0 (included) to 1 (excluded).
    """

    __slots__ = ("_failures", "_retry", "_started_at")

    def __init__(self, retry: Retry, now: float) -> None:
        self._retry = retry
        self._started_at = now
        self._failures = 0

    @property
    def attempt(self) -> int:
        """Number of the current try, from 1."""
        return self._failures + 1

    def succeeded(self, now: float) -> None:
        """Count from anew: there was progress."""
        self._failures = 0
        self._started_at = now

    def delay_s(self, error: ClientError, *, now: float, draw: float) -> float | None:
        """Return how long to wait before the next try, or None to give up with this error."""
        retry = self._retry
        if not is_transient(error):
            return None
        if retry.max_retries is not None and self._failures >= retry.max_retries:
            return None
        delay = max(draw * ceiling_s(retry, self._failures), _asked_s(error))
        if retry.deadline_s is not None and now + delay - self._started_at > retry.deadline_s:
            return None
        self._failures += 1
        return delay


def ceiling_s(retry: Retry, failures: int) -> float:
    """Return the longest delay after so many failures before this one."""
    try:
        return min(retry.initial_delay_s * retry.multiplier**failures, retry.max_delay_s)
    except OverflowError:
        return retry.max_delay_s


def _asked_s(error: ClientError) -> float:
    return getattr(error, "retry_after_s", None) or 0.0
