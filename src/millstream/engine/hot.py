"""The newest appends of one stream, still in memory: a cache over the log, oldest first out."""

from __future__ import annotations

Chunk = bytes | tuple[bytes, bytes]
"""The bytes of one append; with the lengths of its messages when there are several."""

_TRIM_AT = 64


class Hot:
    """Consecutive appends, by their number in the stream's extents."""

    __slots__ = ("_chunks", "_first", "_gone")

    def __init__(self, first: int) -> None:
        """Begin with append number ``first``."""
        self._chunks: list[Chunk | None] = []
        self._first = first
        self._gone = 0

    def __len__(self) -> int:
        """Return how many appends are in memory."""
        return len(self._chunks) - self._gone

    def add(self, chunk: Chunk) -> None:
        """Keep the next append."""
        self._chunks.append(chunk)

    def get(self, number: int) -> Chunk | None:
        """Return append ``number`` if it is in memory."""
        at = number - self._first
        return self._chunks[at] if at >= 0 else None

    def parts(self, start: int, stop: int) -> list[bytes] | None:
        """Return the bytes of appends ``start`` to ``stop``, if all of them are in memory."""
        at = start - self._first
        if at < self._gone:
            return None
        chunks = self._chunks[at : stop - self._first]
        return [
            chunk if isinstance(chunk, bytes) else chunk[0] for chunk in chunks if chunk is not None
        ]

    def cool(self) -> int:
        """Let the oldest append go; return how many bytes that frees."""
        chunks, gone = self._chunks, self._gone
        oldest, chunks[gone] = chunks[gone], None
        gone += 1
        if gone * 2 > len(chunks) and gone >= _TRIM_AT:
            # Shifting the list for every single one would cost its whole length each time.
            del chunks[:gone]
            self._first += gone
            gone = 0
        self._gone = gone
        return _weight(oldest)

    def weight(self) -> int:
        """Return how many bytes of messages are in memory."""
        return sum(map(_weight, self._chunks))


def _weight(chunk: Chunk | None) -> int:
    if chunk is None:
        return 0
    return len(chunk) if isinstance(chunk, bytes) else len(chunk[0])
