"""One server per data directory, held by the kernel for as long as the process lives."""

from __future__ import annotations

from typing import Final

from millstream.storage.damage import DirectoryLocked
from millstream.storage.ports import Files, Handle

LOCK_NAME: Final = "LOCK"
_NOTE_BYTES_MAX: Final = 64


class DirectoryLock:
    """A held lock; ``release`` gives it back, and so does the end of the process."""

    def __init__(self, handle: Handle) -> None:
        """Take over the handle that holds the lock."""
        self._handle = handle

    def release(self) -> None:
        """Let another process in. Twice is harmless."""
        self._handle.close()


def lock_directory(files: Files, directory: str, pid: int) -> DirectoryLock:
    """Take ``directory`` (made if need be) for the process ``pid``.

    Raises DirectoryLocked, naming the process that holds it.
    """
    files.mkdir(directory)
    path = f"{directory}/{LOCK_NAME}"
    try:
        return DirectoryLock(files.lock(path, b"%d\n" % pid))
    except BlockingIOError:
        raise DirectoryLocked(directory, _holder(files, path)) from None


def _holder(files: Files, path: str) -> str:
    handle = files.open(path)
    try:
        note = handle.pread(_NOTE_BYTES_MAX, 0).strip()
    finally:
        handle.close()
    # The holder may have the lock and not have written its note yet.
    return f"process {note.decode()}" if note.isdigit() else "another process"
