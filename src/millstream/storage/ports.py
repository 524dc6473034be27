"""What storage asks of a disk. Two disks exist: the operating system's and one in memory.

All calls block and run on worker threads. Every failure is an OSError. Paths are plain text;
nothing here knows what a log or a snapshot is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

Buffer = bytes | bytearray | memoryview


class Handle(Protocol):
    """An open file. Positions are absolute, so threads may share one handle for reading."""

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all buffers, one behind the other, from ``position`` on; never fewer bytes."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Return ``length`` bytes from ``position`` on; fewer only where the file ends."""
        ...

    def fdatasync(self) -> None:
        """Return when everything written is on stable storage.

        After it raised, what was written may be gone although it still reads back; calling it
        again proves nothing.
        """
        ...

    def allocate(self, size: int, *, is_written: bool = True) -> None:
        """Grow the file to ``size`` bytes that read as zeros and need no more space when written.

        With ``is_written`` the zeros are really written, so that a later write inside them does
        not change the file's metadata either: dearer now, cheaper with every small sync then.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        ...

    def size(self) -> int:
        """Return the length of the file."""
        ...

    def close(self) -> None:
        """Give the file back; closing does not make anything durable. Twice is harmless."""
        ...


class Files(Protocol):
    """A tree of files. A name is durable only after ``sync_dir`` of its directory."""

    def create(self, path: str) -> Handle:
        """Make a new, empty file and open it for writing. FileExistsError if it is there."""
        ...

    def open(self, path: str, *, write: bool = False) -> Handle:
        """Open an existing file. FileNotFoundError if it is not there."""
        ...

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in the same directory, replacing what bears it."""
        ...

    def unlink(self, path: str) -> None:
        """Remove a name. FileNotFoundError if it is not there."""
        ...

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory. FileNotFoundError if it is not there."""
        ...

    def mkdir(self, path: str) -> None:
        """Make a directory, and those above it, unless they are there; its name is durable."""
        ...

    def sync_dir(self, path: str) -> None:
        """Return when the names in a directory are on stable storage."""
        ...

    def lock(self, path: str, note: bytes) -> Handle:
        """Take the file at ``path`` for this process alone and write ``note`` into it.

        Held until the handle is closed or the process ends. Raises BlockingIOError when another
        holds it; the holder's note can be read from the file.
        """
        ...
