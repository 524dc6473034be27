"""Cut an input into appends.

Two ways. *Steady*: cut only by count and size, so the same input always gives the same batches,
and a producer that sends them again is recognised batch by batch. *Eager*: send what is there,
so that a slow pipe is not held back.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import msgspec

_VALUE = msgspec.json.Decoder(msgspec.Raw)


class Source(Protocol):
    """The part of a binary file that is used here."""

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, fewer only at the end."""

    def read1(self, size: int, /) -> bytes:
        """Return what is there, up to `size` bytes, waiting for at least one; b"" at the end."""


class Limits(NamedTuple):
    """How large one append may get."""

    messages: int
    bytes: int


class NotJson(ValueError):
    """A line of the input is not one JSON value."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number} is not one JSON value: {reason}")
        self.line_number = line_number


def chunks(source: Source, size: int, *, steady: bool) -> Iterator[bytes]:
    """Cut an input without structure into pieces of at most `size` bytes."""
    read = source.read if steady else source.read1
    while piece := read(size):
        yield piece


def lines(source: Source, limits: Limits, *, steady: bool) -> Iterator[list[bytes]]:
    """Cut an input into batches of lines, each with its line break; a last line may have none.

    One line larger than the byte limit makes a batch of its own.
    """
    batch: list[bytes] = []
    size = 0
    for piece in _lines_of_pieces(source, steady=steady):
        for line in piece:
            if batch and (len(batch) >= limits.messages or size + len(line) > limits.bytes):
                yield batch
                batch, size = [], 0
            batch.append(line)
            size += len(line)
        if batch and not steady:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _lines_of_pieces(source: Source, *, steady: bool) -> Iterator[list[bytes]]:
    """Give the whole lines of every piece read; a line that is cut waits for its other half."""
    halves: list[bytes] = []
    for piece in chunks(source, 65_536, steady=steady):
        # Only a line feed ends a line: a carriage return is data.
        first, *rest = piece.split(b"\n")
        halves.append(first)
        if rest:
            whole = [b"".join(halves), *rest[:-1]]
            halves = [rest[-1]]
            yield [line + b"\n" for line in whole]
    if last := b"".join(halves):
        yield [last]


def json_arrays(batches: Iterator[list[bytes]]) -> Iterator[tuple[bytes, int]]:
    """Turn batches of lines into JSON arrays with the number of their values.

    Blank lines are left out. Raises NotJson for a line that is not exactly one value.
    """
    line_number = 0
    for batch in batches:
        found = []
        for line in batch:
            line_number += 1
            value = line.strip()
            if not value:
                continue
            try:
                _VALUE.decode(value)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise NotJson(line_number, str(error)) from error
            found.append(value)
        if found:
            yield b"[" + b",".join(found) + b"]", len(found)
