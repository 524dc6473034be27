"""How long a producer holds back after passing failures."""

from __future__ import annotations

from millstream.client.core.backoff import ceiling_s
from millstream.client.errors import ClientError
from millstream.client.options import Retry


class Trouble:
    """Counts failures since the last success. Until ``ready_s`` nothing is sent."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self.count = 0
        self.ready_s = 0.0

    def note(self, error: ClientError, now: float, draw: float) -> None:
        """Take a failure; ``draw`` is a random number from 0 (included) to 1 (excluded)."""
        if now >= self.ready_s:
            # Requests that fail together are one failure, not many.
            self.ready_s = now + draw * ceiling_s(self._retry, self.count)
            self.count += 1
        asked_s = getattr(error, "retry_after_s", None) or 0.0
        self.ready_s = max(self.ready_s, now + asked_s)

    def clear(self) -> None:
        """Forget it all: something got through."""
        self.count = 0
        self.ready_s = 0.0
