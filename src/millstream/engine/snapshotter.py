"""Write a snapshot beside a running server: replay the log in a process of its own.

The server never stops to copy its state. This process starts from the previous snapshot, replays
the durable log behind it up to the LSN it is given, and writes what it arrives at; on the way it
proves that the log can be replayed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from typing import TYPE_CHECKING

from millstream.core.machine import Bounds
from millstream.engine.replay import SNAPSHOT_FOLDER, replay
from millstream.engine.snapshotting import dump
from millstream.storage.files_os import OsFiles
from millstream.storage.lock import lock_directory
from millstream.storage.log import LogOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

    from millstream.storage.ports import Files

PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def snapshot_lock(files: Files, directory: str) -> Iterator[None]:
    """Hold the right to write snapshots of ``directory``. Raises DirectoryLocked.

    A snapshotter can outlive a server that was killed, and meet the one of the next server.
    """
    lock = lock_directory(files, f"{directory}/{SNAPSHOT_FOLDER}", os.getpid())
    try:
        yield
    finally:
        lock.release()


def write_snapshot(directory: str, lsn: int) -> int:
    """Write the state at ``lsn``, which must be durable; return the LSN that was reached."""
    files = OsFiles()
    with snapshot_lock(files, directory):
        found = replay(files, directory, LogOptions(), Bounds(), 0, up_to=lsn)
        if found.lsn > found.snapshot_lsn:
            found.snapshots.write(found.lsn, dump(found.machine, found.views))
            found.snapshots.prune()
    return found.lsn


def main(arguments: list[str]) -> int:
    """Run as ``python -m millstream.engine.snapshotter DATA_DIR LSN``."""
    directory, lsn = arguments
    # Snapshots must never slow down the server they are taken for, nor outlive it.
    os.nice(10)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    write_snapshot(directory, int(lsn))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
