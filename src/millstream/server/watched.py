"""What a connection owes and is owed in bytes: unread answers, unfinished bodies."""

from __future__ import annotations

import asyncio
import math
from typing import Final, cast

from millstream.server.edge import Edge
from millstream.server.outbox import Outbox

NEVER: Final = math.inf
"""A deadline that does not come."""


class Watched(asyncio.Protocol):
    """A connection with an eye on what its client leaves unread, and on what it has sent so far.

    No request costs a timer: deadlines are plain numbers that the edge's periodic sweep looks at.
    """

    __slots__ = (
        "_charged_bytes",
        "_stall_bytes",
        "deadline",
        "edge",
        "is_write_paused",
        "outbox",
        "stall_at",
        "transport",
    )

    def __init__(self, edge: Edge) -> None:
        """Wait for the transport."""
        self.edge = edge
        self.deadline = NEVER
        """When the client must have sent or finished something, in the edge's time."""
        self.stall_at = NEVER
        """When the client must have read something."""
        self.is_write_paused = False
        """Whether more is unsent than the client should be allowed to leave unread."""
        self.transport = cast("asyncio.Transport", None)
        self.outbox = cast("Outbox", None)
        self._charged_bytes = 0
        self._stall_bytes = 0

    def pause_writing(self) -> None:
        """The client leaves too much unread: hold back until it reads."""
        self.is_write_paused = True
        self._watch_reader(self.edge.now)

    def resume_writing(self) -> None:
        """The client reads again."""
        self.is_write_paused = False
        self.stall_at = NEVER

    def _watch_reader(self, now: float) -> None:
        self._stall_bytes = self.transport.get_write_buffer_size()
        self.stall_at = now + self.edge.stall_s if self._stall_bytes else NEVER

    def _is_making_progress(self, now: float) -> bool:
        if self.transport.get_write_buffer_size() >= self._stall_bytes:
            return False
        self._watch_reader(now)
        return True

    def _charge(self, held_bytes: int) -> None:
        """Count the bytes of an unfinished body against what all connections may hold."""
        self.edge.body_bytes_held += held_bytes - self._charged_bytes
        self._charged_bytes = held_bytes
