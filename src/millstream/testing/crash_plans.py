"""Which of the changes that were not synced a power loss keeps: whole plans, for one crash each."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

SECTOR_BYTES: Final = 512
_TEARS_MAX: Final = 8


class Pending(NamedTuple):
    """A change that is not stable yet: to the names of a directory, or bytes in a file."""

    number: int
    length: int
    is_name: bool


class Fate(NamedTuple):
    """What becomes of one change: which ranges of its bytes are kept, and whether it counts.

    ``is_grown`` lets the file have its new length although bytes are missing: they read as zero.
    """

    is_kept: bool
    ranges: tuple[tuple[int, int], ...]
    is_grown: bool = False

    @classmethod
    def kept(cls, pending: Pending) -> Fate:
        """Keep all of it."""
        return cls(is_kept=True, ranges=((0, pending.length),))

    @classmethod
    def lost(cls) -> Fate:
        """Keep nothing."""
        return cls(is_kept=False, ranges=())

    @classmethod
    def zeroed(cls) -> Fate:
        """Keep the length that a write gave the file, not its bytes."""
        return cls(is_kept=False, ranges=(), is_grown=True)

    @classmethod
    def torn(cls, start: int, stop: int) -> Fate:
        """Keep the bytes from ``start`` to ``stop`` of a write."""
        return cls(is_kept=False, ranges=((start, stop),))

    @classmethod
    def by_chance(cls, pending: Pending, rng: random.Random) -> Fate:
        """Choose any fate that a disk may have in store."""
        choice = rng.randrange(2 if pending.is_name or pending.length == 0 else 6)
        if choice == 0:
            return cls.lost()
        if choice == 1:
            return cls.kept(pending)
        if choice == 2:
            return cls.zeroed()
        if choice == 3:
            return cls.torn(0, rng.randrange(pending.length))
        if choice == 4:
            return cls.torn(rng.randrange(pending.length), pending.length)
        sectors = range(0, pending.length, SECTOR_BYTES)
        kept = [(at, at + SECTOR_BYTES) for at in sectors if rng.random() < 0.5]
        return cls(is_kept=False, ranges=tuple(kept), is_grown=rng.random() < 0.5)


Plan = dict[int, Fate]


def plans(pending: Sequence[Pending], count: int, seed: int) -> Iterator[Plan]:
    """Yield plans for the given changes: the telling ones first, then ``2 * count`` by chance."""
    kept = {p.number: Fate.kept(p) for p in pending}
    lost = {p.number: Fate.lost() for p in pending}
    yield lost
    yield kept
    yield {p.number: Fate.kept(p) if p.is_name else Fate.zeroed() for p in pending}
    yield {p.number: Fate.lost() if p.is_name else Fate.kept(p) for p in pending}
    for index, change in enumerate(pending):
        before = {p.number: Fate.kept(p) for p in pending[:index]}
        yield {**lost, **before}
        for fate in _tears(change):
            yield {**lost, **before, change.number: fate}
            yield {**kept, change.number: fate}
        yield {**lost, change.number: Fate.kept(change)}
        yield {**kept, change.number: Fate.lost()}
    rng = random.Random(seed)
    for _ in range(2 * count):
        yield {p.number: Fate.by_chance(p, rng) for p in pending}


def _tears(change: Pending) -> Iterator[Fate]:
    if change.is_name or change.length == 0:
        return
    yield Fate.zeroed()
    step = max(SECTOR_BYTES, change.length // _TEARS_MAX // SECTOR_BYTES * SECTOR_BYTES)
    for at in range(step, change.length, step):
        yield Fate.torn(0, at)
        yield Fate.torn(at, change.length)
    for at in {1, change.length // 3, change.length - 1} - {0, change.length}:
        yield Fate.torn(0, at)
        yield Fate.torn(at, change.length)
