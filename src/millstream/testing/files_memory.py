"""A disk in memory that can lose its power, fail, and be looked at: for tests of durability.

``MemoryDisk.files`` is a ``Files``. Beside what a program sees (the page cache) the disk keeps
what is on stable storage and every change since the last sync of its file or directory. A crash
takes the stable part and, of the changes, any part that a file system may have written by then:

* a write to a file: all, nothing, any of its 512-byte sectors, a prefix or suffix of its bytes,
  or (behind the old end of the file) its length with zeros in place of its bytes;
* a change of names: made or not, each by itself; a rename is one change.

Changes of different files and of different sectors may be kept in any order.
"""

from __future__ import annotations

import copy
import errno
import os
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from millstream.storage.ports import Buffer
from millstream.testing.crash_plans import Fate, plans
from millstream.testing.memory_nodes import (
    Directory,
    Inode,
    Naming,
    Truncate,
    Write,
    crashed_directory,
    listing,
    pending_changes,
)

__all__ = ["Attempt", "MemoryDisk", "MemoryFiles", "MemoryHandle", "Operation"]


class Operation(NamedTuple):
    """One call that changed the disk or was meant to; ``number`` counts them from 1."""

    number: int
    kind: str
    path: str
    size: int


class Attempt(NamedTuple):
    """An operation on its way: its number, and whether it is to fail."""

    number: int
    is_failing: bool


class _Fault:
    def __init__(self, nth: int, error: int, *, sticky: bool) -> None:
        self.left = nth
        self.error = error
        self.sticky = sticky

    def is_due(self) -> bool:
        self.left -= 1
        return self.left == 0 or (self.sticky and self.left < 0)


class MemoryDisk:
    """The disk itself, with the powers of a test over it.

    ``watch`` is called after every operation, on the thread that made it. ``operations`` is the
    record. Kinds of operations: create, write, sync, allocate, truncate, rename, unlink, mkdir,
    sync_dir.
    """

    def __init__(self, root: Directory | None = None) -> None:
        """Start with an empty, stable root directory unless one is given."""
        self.files = MemoryFiles(self)
        self.operations: list[Operation] = []
        self.watch: Callable[[Operation], None] | None = None
        self._root = root or Directory()
        self._faults: dict[str, list[_Fault]] = {}
        self._mutex = threading.RLock()
        self.locked: set[str] = set()

    def fail(self, kind: str, nth: int, error: int = errno.EIO, *, sticky: bool = False) -> None:
        """Let the ``nth`` operation of ``kind`` from now on fail, and all later ones if sticky.

        A write that fails leaves half of its bytes behind. A sync that fails drops what it was
        to make stable, and the next one succeeds: that is what Linux does.
        """
        self._faults.setdefault(kind, []).append(_Fault(nth, error, sticky=sticky))

    def heal(self) -> None:
        """Let no further operation fail."""
        self._faults.clear()

    def content(self, path: str) -> bytes:
        """Return what a read of the whole file sees."""
        return bytes(self.inode(path).volatile)

    def replace(self, path: str, content: bytes) -> None:
        """Put other stable bytes into a file, as rot or a stray hand would."""
        inode = self.inode(path)
        inode.volatile[:] = content
        inode.stable[:] = content
        inode.pending.clear()

    def flip(self, path: str, position: int, mask: int) -> None:
        """Flip the bits of ``mask`` in one byte of a file, also on stable storage."""
        content = bytearray(self.content(path))
        content[position] ^= mask
        self.replace(path, bytes(content))

    def kill(self) -> MemoryDisk:
        """Return a copy of the disk as the next process finds it when this one is killed.

        All that was written is seen; what was not synced is still not stable.
        """
        with self._mutex:
            other = MemoryDisk(copy.deepcopy(self._root))
            other.operations.extend(self.operations)
            return other

    def crash(self, rng: random.Random) -> MemoryDisk:
        """Return the disk after a power loss now, one legal state chosen by ``rng``."""
        with self._mutex:
            return self._crashed(
                {p.number: Fate.by_chance(p, rng) for p in pending_changes(self._root)}
            )

    def crash_states(self, count: int, seed: int = 0) -> Iterator[MemoryDisk]:
        """Yield up to ``count`` different legal states after a power loss now.

        The same disk, count and seed give the same states. First come the telling ones (all
        lost, all kept, every prefix, each change alone, torn writes), then states by chance.
        """
        seen: set[int] = set()
        with self._mutex:
            for plan in plans(pending_changes(self._root), count, seed):
                state = self._crashed(plan)
                mark = state.fingerprint()
                if mark not in seen:
                    seen.add(mark)
                    yield state
                if len(seen) == count:
                    return

    def fingerprint(self) -> int:
        """Return a number that differs between disks that read differently."""
        return hash(listing(self._root))

    def inode(self, path: str) -> Inode:
        """Return the file behind a path. For the handles of this disk."""
        node = self.node(path)
        if not isinstance(node, Inode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return node

    def node(self, path: str) -> Inode | Directory:
        """Return what stands behind a path. For the files of this disk."""
        node: Inode | Directory = self._root
        for name in _names(path):
            found = node.volatile.get(name) if isinstance(node, Directory) else None
            if found is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
            node = found
        return node

    def perform(self, kind: str, path: str, size: int, act: Callable[[Attempt], None]) -> None:
        """Number, record and carry out one operation; ``act`` learns whether it is to fail."""
        with self._mutex:
            number = len(self.operations) + 1
            operation = Operation(number, kind, path, size)
            self.operations.append(operation)
            due = [fault for fault in self._faults.get(kind, ()) if fault.is_due()]
            act(Attempt(number, is_failing=bool(due)))
            if due:
                raise OSError(due[0].error, os.strerror(due[0].error), path)
        if self.watch is not None:
            self.watch(operation)

    def _crashed(self, plan: Mapping[int, Fate]) -> MemoryDisk:
        return MemoryDisk(crashed_directory(self._root, plan, {}))


def _names(path: str) -> list[str]:
    return [name for name in path.split("/") if name not in ("", ".")]


class MemoryHandle:
    """An open file of a memory disk."""

    def __init__(self, disk: MemoryDisk, path: str, *, write: bool, is_lock: bool = False) -> None:
        """Open what stands at ``path`` now; a later rename does not matter."""
        self._disk = disk
        self._path = path
        self._inode = disk.inode(path)
        self._may_write = write
        self._is_lock = is_lock

    def pwritev(self, buffers: Sequence[Buffer], position: int) -> None:
        """Write all buffers from ``position`` on."""
        self._require_write()
        data = b"".join(buffers)

        def act(attempt: Attempt) -> None:
            kept = data[: len(data) // 2] if attempt.is_failing else data
            self._inode.change(Write(attempt.number, position, kept))

        self._disk.perform("write", self._path, len(data), act)

    def pread(self, length: int, position: int) -> bytes:
        """Return ``length`` bytes from ``position`` on; fewer only where the file ends."""
        return bytes(self._inode.volatile[position : position + length])

    def fdatasync(self) -> None:
        """Make everything written stable."""

        def act(attempt: Attempt) -> None:
            if attempt.is_failing:
                self._inode.pending.clear()
            self._inode.sync()

        self._disk.perform("sync", self._path, 0, act)

    def allocate(self, size: int, *, is_written: bool = True) -> None:  # noqa: ARG002
        """Grow the file to ``size`` bytes of zeros."""
        self._require_write()
        position = self.size()

        def act(attempt: Attempt) -> None:
            grown = (size - position) // 2 if attempt.is_failing else size - position
            self._inode.change(Write(attempt.number, position, bytes(max(0, grown))))

        self._disk.perform("allocate", self._path, size, act)

    def truncate(self, size: int) -> None:
        """Cut the file to ``size`` bytes."""
        self._require_write()

        def act(attempt: Attempt) -> None:
            if not attempt.is_failing:
                self._inode.change(Truncate(attempt.number, size))

        self._disk.perform("truncate", self._path, size, act)

    def size(self) -> int:
        """Return the length of the file."""
        return len(self._inode.volatile)

    def close(self) -> None:
        """Give the file back, and the lock if it was one."""
        if self._is_lock:
            self._is_lock = False
            self._disk.locked.discard(self._path)

    def _require_write(self) -> None:
        if not self._may_write:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._path)


class MemoryFiles:
    """The tree of files of a memory disk."""

    def __init__(self, disk: MemoryDisk) -> None:
        """Work on ``disk``."""
        self._disk = disk

    def create(self, path: str) -> MemoryHandle:
        """Make a new, empty file and open it for writing."""
        directory, name = self._split(path)
        if name in directory.volatile:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)
        self._name("create", path, directory, {name: Inode()})
        return MemoryHandle(self._disk, path, write=True)

    def open(self, path: str, *, write: bool = False) -> MemoryHandle:
        """Open an existing file."""
        return MemoryHandle(self._disk, path, write=write)

    def rename(self, old: str, new: str) -> None:
        """Give a file another name in the same directory."""
        directory, name = self._split(old)
        target, new_name = self._split(new)
        if target is not directory:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), new)
        self._name("rename", new, directory, {name: None, new_name: self._disk.inode(old)})

    def unlink(self, path: str) -> None:
        """Remove a name."""
        directory, name = self._split(path)
        self._disk.inode(path)
        self._name("unlink", path, directory, {name: None})

    def listdir(self, path: str) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(self._directory(path).volatile)

    def mkdir(self, path: str) -> None:
        """Make a directory, and those above it, unless they are there; its name is durable."""
        parent_path, _, name = path.rstrip("/").rpartition("/")
        if name in ("", "."):
            return
        if parent_path:
            self.mkdir(parent_path)
        parent = self._directory(parent_path)
        if name not in parent.volatile:
            self._name("mkdir", path, parent, {name: Directory()})
        self.sync_dir(parent_path)

    def sync_dir(self, path: str) -> None:
        """Make the names in a directory stable."""
        directory = self._directory(path)

        def act(attempt: Attempt) -> None:
            if not attempt.is_failing:
                directory.sync()

        self._disk.perform("sync_dir", path, 0, act)

    def lock(self, path: str, note: bytes) -> MemoryHandle:
        """Take the file at ``path`` for this disk's process alone and write ``note`` into it."""
        if path in self._disk.locked:
            raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK), path)
        directory, name = self._split(path)
        if name not in directory.volatile:
            self.create(path)
        handle = MemoryHandle(self._disk, path, write=True, is_lock=True)
        handle.truncate(0)
        handle.pwritev([note], 0)
        self._disk.locked.add(path)
        return handle

    def _name(
        self,
        kind: str,
        path: str,
        directory: Directory,
        names: Mapping[str, Inode | Directory | None],
    ) -> None:
        def act(attempt: Attempt) -> None:
            if not attempt.is_failing:
                directory.change(Naming(attempt.number, names))

        self._disk.perform(kind, path, 0, act)

    def _directory(self, path: str) -> Directory:
        node = self._disk.node(path)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return node

    def _split(self, path: str) -> tuple[Directory, str]:
        parent, _, name = path.rpartition("/")
        return self._directory(parent), name
