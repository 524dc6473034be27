"""Where a stream's messages lie in the log: one row of four numbers for each append.

A row is (end index, commit time, place, frame length), 32 bytes in one flat array, so that a
stream costs one object however many appends it has. A place packs a log file's ordinal and the
position of the frame within it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

_STRIDE = 4
_POSITION_BITS = 36
_POSITION_MASK = (1 << _POSITION_BITS) - 1


class Extent(NamedTuple):
    """One append: messages (first, end] were committed at ``time_ms`` in the frame at place."""

    first: int
    end: int
    time_ms: int
    place: int
    frame_bytes: int


def pack_place(ordinal: int, position: int) -> int:
    """Return file ordinal and position as one number."""
    return (ordinal << _POSITION_BITS) | position


def unpack_place(place: int) -> tuple[int, int]:
    """Return the file ordinal and the position that ``place`` packs."""
    return place >> _POSITION_BITS, place & _POSITION_MASK


class Extents:
    """The rows of one stream, in order; ``base`` is the index before the first of them."""

    __slots__ = ("_rows", "base")

    def __init__(self, base: int, packed: bytes = b"") -> None:
        """Start empty behind ``base``, or from the bytes that ``packed`` gave."""
        self.base = base
        self._rows = array("q", packed)

    def __len__(self) -> int:
        """Return how many appends there are."""
        return len(self._rows) // _STRIDE

    def packed(self) -> bytes:
        """Return all rows as bytes, for a snapshot."""
        return self._rows.tobytes()

    def add(self, end: int, time_ms: int, place: int, frame_bytes: int) -> None:
        """Note one more append."""
        self._rows.extend((end, time_ms, place, frame_bytes))

    def row(self, number: int) -> Extent:
        """Return append ``number``, counted from 0."""
        at = number * _STRIDE
        rows = self._rows
        first = rows[at - _STRIDE] if number else self.base
        return Extent(first, rows[at], rows[at + 1], rows[at + 2], rows[at + 3])

    def holding(self, index: int) -> int:
        """Return the number of the append that holds the message behind position ``index``."""
        rows = self._rows
        return bisect_right(range(len(self)), index, key=lambda k: rows[k * _STRIDE])

    def run(self, number: int, stop_at: int, bytes_max: int) -> tuple[int, bool]:
        """Return the number behind the whole appends from ``number`` on that make up a page.

        They end at or before position ``stop_at`` and go on until ``bytes_max`` bytes of frames
        are full; also tells whether it was the bytes that ended them.
        """
        rows = self._rows
        at, end, size = number * _STRIDE, len(rows), 0
        while at < end and size < bytes_max and rows[at] <= stop_at:
            size += rows[at + 3]
            at += _STRIDE
        return at // _STRIDE, size >= bytes_max

    def time_at(self, index: int) -> int:
        """Return when message ``index`` (the one before that position) was committed."""
        rows = self._rows
        number = bisect_left(range(len(self)), index, key=lambda k: rows[k * _STRIDE])
        return rows[number * _STRIDE + 1]

    def first_since(self, time_ms: int) -> int:
        """Return the position before the first message committed at ``time_ms`` or later."""
        rows = self._rows
        number = bisect_left(range(len(self)), time_ms, key=lambda k: rows[k * _STRIDE + 1])
        return rows[(number - 1) * _STRIDE] if number else self.base
