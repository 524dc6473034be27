"""A bounded set of files kept open for reading, shared by worker threads."""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator

from millstream.storage.ports import Handle


class _Entry:
    __slots__ = ("handle", "users")

    def __init__(self, handle: Handle) -> None:
        self.handle = handle
        self.users = 0


class HandleCache:
    """Opens a file on first use and closes the one unused longest when there are too many.

    A file in use is never closed: its descriptor could come back as another file.
    """

    def __init__(self, opener: Callable[[int], Handle], limit: int) -> None:
        """Keep at most ``limit`` idle files open; ``opener`` gets the key of a missing one."""
        self._opener = opener
        self._limit = limit
        self._lock = threading.Lock()
        self._entries: OrderedDict[int, _Entry] = OrderedDict()

    @contextlib.contextmanager
    def use(self, key: int) -> Iterator[Handle]:
        """Lend the file of ``key``; it stays open until given back. Raises as the opener does."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                entry = self._entries[key] = _Entry(self._opener(key))
            self._entries.move_to_end(key)
            entry.users += 1
        try:
            yield entry.handle
        finally:
            with self._lock:
                entry.users -= 1
                self._shrink(self._limit)

    def close(self) -> None:
        """Close every file that nobody uses."""
        with self._lock:
            self._shrink(0)

    def _shrink(self, limit: int) -> None:
        excess = len(self._entries) - limit
        if excess <= 0:
            return
        idle = [key for key, entry in self._entries.items() if entry.users == 0]
        for key in idle[:excess]:
            self._entries.pop(key).handle.close()
