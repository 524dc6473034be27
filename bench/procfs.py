"""CPU time and memory of a server with all its child processes, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TICK_US: Final = 1_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")
_TRIES: Final = 10


def ticks_of(stat: str, *, with_ended: bool = False) -> int:
    """Return user and system ticks of a /proc/PID/stat line; the name in it may hold anything.

    On request those of its children that have ended and were waited for are in it.
    """
    fields = stat.rpartition(")")[2].split()
    return sum(int(field) for field in fields[11 : 15 if with_ended else 13])


def tree(pid: int) -> list[int]:
    """Return the process and everything that descends from it; nothing if it is gone."""
    found = [pid]
    for parent in found:
        try:
            threads = list((_PROC / str(parent) / "task").iterdir())
            for thread in threads:
                found += [int(child) for child in (thread / "children").read_text().split()]
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def children(pid: int) -> list[int]:
    """Return everything that descends from the process."""
    return tree(pid)[1:]


def cpu_us(pid: int) -> int:
    """Return the CPU time that the process tree has used so far, in microseconds.

    It never goes back: what a child used moves to its parent when the child has ended.
    """
    total = 0
    for _ in range(_TRIES):
        before = tree(pid)
        total = sum(_ticks(one, with_ended=True) for one in before)
        # A child that ended meanwhile was read twice or not at all: read again.
        if tree(pid) == before:
            break
    return total * _TICK_US


def process_us(pid: int) -> int:
    """Return the CPU time of this one process, without its children, in microseconds."""
    return _ticks(pid) * _TICK_US


def _ticks(pid: int, *, with_ended: bool = False) -> int:
    try:
        return ticks_of((_PROC / str(pid) / "stat").read_text(), with_ended=with_ended)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def rss_bytes(pid: int) -> int:
    """Return the memory of the process tree that is in RAM now."""
    total = 0
    for one in tree(pid):
        try:
            total += int((_PROC / str(one) / "statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total * _PAGE
