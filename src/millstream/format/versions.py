"""Versions of the layouts, and the answer for a version this build does not know."""

from __future__ import annotations

from typing import Final

import msgspec

FRAME_VERSION: Final = 1
LOG_VERSION: Final = 1
SNAPSHOT_VERSION: Final = 1


class UnknownVersion(msgspec.Struct, frozen=True):
    """The bytes are whole (their checksum holds) but of a version this build cannot read.

    This is never damage: a newer build wrote them. Nothing may be cut or rewritten.
    """

    layout: str
    found: int
    known: int

    def text(self) -> str:
        """Say in one sentence what was found and what is known."""
        return f"{self.layout} has format version {self.found}; this build reads {self.known}"
