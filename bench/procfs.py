"""CPU time and memory of a server with all its child processes, read from /proc."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_TICK_US: Final = 1_000_000 // os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_PROC: Final = Path("/proc")


def ticks_of(stat: str) -> int:
    """Return user and system ticks of a /proc/PID/stat line; the name in it may hold anything."""
    fields = stat.rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


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


def cpu_us(pid: int) -> int:
    """Return the CPU time that the process tree has used so far, in microseconds."""
    total = 0
    for one in tree(pid):
        try:
            total += ticks_of((_PROC / str(one) / "stat").read_text())
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total * _TICK_US


def rss_bytes(pid: int) -> int:
    """Return the memory of the process tree that is in RAM now."""
    total = 0
    for one in tree(pid):
        try:
            total += int((_PROC / str(one) / "statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return total * _PAGE
