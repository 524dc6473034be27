"""Offsets: positions between messages, as text that sorts.

An offset is ``TTTTTTTTTTTTTTTT_IIIIIIIIIIIIIIII``: the commit time (Unix ms, 16 digits) of the
message before the position and that message's running index (16 digits). The start of a stream
is all zeros. An index of zero behind a time that is not zero names a point in time.
"""

from __future__ import annotations

from typing import Final

import msgspec

START: Final = "0000000000000000_0000000000000000"
BEGINNING: Final = "-1"
NOW: Final = "now"

_TEXT_LENGTH: Final = 33
_DIGITS: Final = 16


class Position(msgspec.Struct, frozen=True, array_like=True):
    """A parsed offset: the index of, and the commit time of, the message before it."""

    time_ms: int
    index: int

    @property
    def is_point_in_time(self) -> bool:
        """True for an offset that names a moment rather than a message."""
        return self.index == 0 and self.time_ms != 0

    def text(self) -> str:
        """Return the offset's one textual form."""
        return format_offset(self.time_ms, self.index)


ZERO: Final = Position(0, 0)


def format_offset(time_ms: int, index: int) -> str:
    """Return the text of the offset behind message ``index``, committed at ``time_ms``."""
    return f"{time_ms:016d}_{index:016d}"


def parse_offset(text: str) -> Position | None:
    """Return the position that ``text`` names, or None when it is not an offset of ours.

    The two sentinels of the protocol (``-1`` and ``now``) are not positions and give None.
    """
    if len(text) != _TEXT_LENGTH or text[_DIGITS] != "_" or not text.isascii():
        return None
    time_text, index_text = text[:_DIGITS], text[_DIGITS + 1 :]
    if not (time_text.isdigit() and index_text.isdigit()):
        return None
    return Position(int(time_text), int(index_text))
