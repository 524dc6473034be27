"""The operating system's disk: the only module that opens, writes, syncs and renames files."""

# Raw calls on plain names: what reaches the kernel is to be seen here.
# ruff: noqa: PTH100, PTH102, PTH104, PTH108, PTH112, PTH120, PTH208

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Sequence
from typing import Final

from millstream.storage.ports import Buffer

_IOV_MAX: Final = min(1024, os.sysconf("SC_IOV_MAX"))
_ZEROS: Final = bytes(1 << 20)
_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700


class OsHandle:
    """An open file of the operating system."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        """Take over an open file descriptor."""
        self._fd = fd

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all buffers from ``position`` on; a short write is continued, an error raised."""
        for first in range(0, len(buffers), _IOV_MAX):
            group = buffers[first : first + _IOV_MAX]
            wanted = sum(map(len, group))
            written = os.pwritev(self._fd, group, position)
            if written != wanted:
                self._write_rest(group, written, position)
            position += wanted

    def _write_rest(self, group: Sequence[Buffer], written: int, position: int) -> None:
        """Continue behind a short write, which a signal or a nearly full disk can cause."""
        rest = memoryview(b"".join(group))
        while written < len(rest):
            step = os.pwrite(self._fd, rest[written:], position + written)
            if step == 0:
                raise OSError(0, "the disk takes no more bytes")
            written += step

    def pread(self, length: int, position: int) -> bytes:
        """Return ``length`` bytes from ``position`` on; fewer only where the file ends."""
        data = os.pread(self._fd, length, position)
        if len(data) == length or not data:
            return data
        # One call hands over at most 2 GiB; go on until the file ends.
        pieces = [data]
        have = len(data)
        while have < length and (data := os.pread(self._fd, length - have, position + have)):
            pieces.append(data)
            have += len(data)
        return b"".join(pieces)

    def fdatasync(self) -> None:
        """Return when everything written, and the file's length, is on stable storage."""
        os.fdatasync(self._fd)

    def allocate(self, size: int, *, is_written: bool = True) -> None:
        """Grow the file to ``size`` bytes of zeros, written or only reserved."""
        position = os.fstat(self._fd).st_size
        if not is_written and position < size:
            os.posix_fallocate(self._fd, position, size - position)
            return
        while position < size:
            step = min(len(_ZEROS), size - position)
            self.pwritev([memoryview(_ZEROS)[:step]], position)
            position += step

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        os.ftruncate(self._fd, size)

    def size(self) -> int:
        """Return the length of the file."""
        return os.fstat(self._fd).st_size

    def close(self) -> None:
        """Give the descriptor back; twice is harmless."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


class OsFiles:
    """The operating system's tree of files. New files are readable by their owner only."""

    def create(self, path: str) -> OsHandle:
        """Make a new, empty file and open it for writing."""
        return OsHandle(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, _FILE_MODE))

    def open(self, path: str, *, write: bool = False) -> OsHandle:
        """Open an existing file."""
        return OsHandle(os.open(path, os.O_RDWR if write else os.O_RDONLY))

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in the same directory."""
        os.rename(old, new)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        os.unlink(path)

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(os.listdir(path))

    def mkdir(self, path: str) -> None:
        """Make a directory, and those above it, unless they are there; its name is durable."""
        parent = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(path):
            if not os.path.isdir(parent):
                self.mkdir(parent)
            os.mkdir(path, _DIRECTORY_MODE)
            self.sync_dir(parent)
            return
        # The process that made it may have been killed before it synced the name. A parent that
        # may not be read was not made by this program.
        with contextlib.suppress(PermissionError):
            self.sync_dir(parent)

    def sync_dir(self, path: str) -> None:
        """Return when the names in a directory are on stable storage."""
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def lock(self, path: str, note: bytes) -> OsHandle:
        """Take the file at ``path`` for this process alone and write ``note`` into it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT, _FILE_MODE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(fd, 0)
            os.pwrite(fd, note, 0)
        except OSError:
            os.close(fd)
            raise
        return OsHandle(fd)
