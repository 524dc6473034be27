"""Whether everything that was seen of one stream can be explained by one order of its messages.

An answered append names where it ended and a read names the tail it saw, so each carries its own
place in the only order that could explain it, and no search is needed: what is left to check is
that nothing is placed before something that had returned before it was called.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from typing import NamedTuple


class Write:
    """One append. Without ``end`` nobody was told what became of it."""

    def __init__(self, messages: Sequence[bytes], called: float) -> None:
        self.messages = tuple(messages)
        self.called = called
        self.returned = math.inf
        self.end: int | None = None

    def answer(self, end: int, returned: float) -> None:
        """Note that the append was answered for: its last message is number ``end``."""
        self.end = end
        self.returned = returned


class Look(NamedTuple):
    """One read: the stream's first ``tail`` messages were these."""

    called: float
    returned: float
    tail: int
    digest: bytes


class Prefix:
    """A reader's own copy of a stream: all messages from its start, with a running digest."""

    def __init__(self) -> None:
        self.digests = [b""]

    def __len__(self) -> int:
        return len(self.digests) - 1

    def add(self, messages: Sequence[bytes]) -> None:
        for message in messages:
            self.digests.append(chained(self.digests[-1], message))


def chained(before: bytes, message: bytes) -> bytes:
    """Return the digest of a stream that goes on with ``message``."""
    return hashlib.blake2b(before + message, digest_size=12).digest()


class History:
    """All that was asked and seen of one stream."""

    def __init__(self) -> None:
        self.writes: list[Write] = []
        self.looks: list[Look] = []

    def faults(self, messages: Sequence[bytes], own_from: int = 0) -> list[str]:
        """Return what cannot be explained if the stream's messages are these.

        Those before ``own_from`` are a fork's inheritance: nobody wrote them here.
        """
        places: dict[bytes, int] = {}
        found: list[str] = []
        for index, message in enumerate(messages):
            if message in places:
                found.append(f"message {index + 1} is message {places[message] + 1} again")
            places[message] = index
        written = {message for write in self.writes for message in write.messages}
        found += [
            f"message {index + 1} was written by nobody: {message[:60]!r}"
            for index, message in enumerate(messages[own_from:], own_from)
            if message not in written
        ]
        points = [point for write in self.writes for point in _place_write(write, places, found)]
        prefix = Prefix()
        prefix.add(messages)
        points += [point for look in self.looks for point in _place_look(look, prefix, found)]
        return found + _order_faults(points)

    def forget_looks(self) -> None:
        """Drop reads that were checked; what they saw stays checked through the newest."""
        if self.looks:
            self.looks = [max(self.looks, key=lambda look: look.tail)]


class _Point(NamedTuple):
    place: int
    is_look: bool
    called: float
    returned: float


def _place_write(write: Write, places: dict[bytes, int], found: list[str]) -> list[_Point]:
    at = [places.get(message) for message in write.messages]
    first = at[0]
    if first is None:
        if any(place is not None for place in at):
            found.append(f"a batch is there in part: {write.messages[0][:60]!r}")
        elif write.end is not None:
            found.append(f"an answered append is lost: {write.messages[0][:60]!r}")
        return []
    if at != list(range(first, first + len(at))):
        found.append(f"a batch is torn or out of order: {write.messages[0][:60]!r} at {at}")
        return []
    end = first + len(at)
    if write.end not in (None, end):
        found.append(f"an append answered with {write.end} ends at {end}")
        return []
    return [_Point(end, False, write.called, write.returned)]


def _place_look(look: Look, prefix: Prefix, found: list[str]) -> list[_Point]:
    if look.tail > len(prefix):
        found.append(f"a reader saw {look.tail} messages, {len(prefix)} are there")
        return []
    if look.digest and look.digest != prefix.digests[look.tail]:
        found.append(f"a reader saw other messages among the first {look.tail}")
        return []
    return [_Point(look.tail, True, look.called, look.returned)]


def _order_faults(points: list[_Point]) -> list[str]:
    """Walk from the end: nothing may be called after something behind it had returned."""
    points = sorted(points, key=lambda point: (point.place, point.is_look))
    faults: list[str] = []
    earliest = math.inf
    index = len(points)
    while index:
        start = index
        key = points[index - 1][:2]
        while start and points[start - 1][:2] == key:
            start -= 1
        group = points[start:index]
        faults += [
            f"{'a read of' if point.is_look else 'the append up to'} {point.place} came after"
            " something behind it was seen"
            for point in group
            if earliest < point.called
        ]
        earliest = min([earliest, *(point.returned for point in group)])
        index = start
    return faults
