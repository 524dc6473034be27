"""Write a snapshot beside a running server: replay the log in a process of its own.

The server never stops to copy its state. This process starts from the previous snapshot, replays
the durable log behind it up to the LSN it is given, and writes what it arrives at; on the way it
proves that the log can be replayed.
"""

from __future__ import annotations

import os
import sys

from millstream.core.machine import Bounds
from millstream.engine.replay import replay
from millstream.engine.snapshotting import dump
from millstream.storage.files_os import OsFiles
from millstream.storage.log import LogOptions


def write_snapshot(directory: str, lsn: int) -> int:
    """Write the state at ``lsn``, which must be durable; return the LSN that was reached."""
    found = replay(OsFiles(), directory, LogOptions(), Bounds(), 0, up_to=lsn)
    if found.lsn > found.snapshot_lsn:
        found.snapshots.write(found.lsn, dump(found.machine, found.views))
        found.snapshots.prune()
    return found.lsn


def main(arguments: list[str]) -> int:
    """Run as ``python -m millstream.engine.snapshotter DATA_DIR LSN``."""
    directory, lsn = arguments
    # Snapshots must never slow down the server they are taken for.
    os.nice(10)
    write_snapshot(directory, int(lsn))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
