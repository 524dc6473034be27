"""The log on threads of its own: one that writes and syncs, one that prepares the next file.

A thread woken by a queue answers sooner than an executor does, and one sync in flight is all
there ever is (docs/adr).
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.storage.log import Log, Place

_log = logging.getLogger(__name__)

RETRY_S = 0.5
RUSHED_S = 4.0
"""A file that fills up sooner is followed by one whose zeros are not written beforehand."""

_Job = tuple["list[bytes | memoryview]", "Place", "Callable[[BaseException | None], None]"]


class ThreadedDisk:
    """Drives a log from the event loop without ever blocking it."""

    def __init__(self, log: Log, call_soon: Callable[[Callable[[], None]], object]) -> None:
        """``call_soon`` hands a callback over to the event loop's thread."""
        self._log = log
        self._call_soon = call_soon
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._wants: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self.prepare_error: OSError | None = None
        self._rolled_at = -RUSHED_S
        self._is_rushed = False
        self._threads = [
            threading.Thread(target=self._write_all, name="millstream-log", daemon=True),
            threading.Thread(target=self._prepare_all, name="millstream-log-next", daemon=True),
        ]

    def start(self) -> None:
        """Start the threads and have the next file prepared."""
        for thread in self._threads:
            thread.start()
        self._wants.put(True)

    def stop(self) -> None:
        """Finish what was given and end the threads. Blocks until they have ended."""
        self._stopping.set()
        self._jobs.put(None)
        self._wants.put(False)
        for thread in self._threads:
            thread.join()

    @property
    def seed(self) -> int:
        """What the checksums of this log's frames start from."""
        return self._log.seed

    @property
    def room(self) -> int:
        """Bytes that fit into the current file beside what was planned."""
        return self._log.room

    def has_room(self, total_bytes: int) -> bool:
        """Tell whether that much fits, as far as is known; False only when the disk is full.

        The current file's room is real, its blocks are written already. Beyond it there is the
        next file, unless it could not be made.
        """
        if total_bytes <= self._log.room or self._log.is_next_ready:
            return True
        if self.prepare_error is None:
            return True
        self._wants.put(True)
        return False

    def plan(self, total_bytes: int) -> Place:
        """Say where the next batch goes."""
        return self._log.plan(total_bytes)

    def write(
        self,
        buffers: list[bytes | memoryview],
        place: Place,
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Write and sync on the log's thread, then call ``done`` on the event loop."""
        self._jobs.put((buffers, place, done))

    def _write_all(self) -> None:
        while (job := self._jobs.get()) is not None:
            buffers, place, done = job
            error: BaseException | None = None
            try:
                if place.must_roll:
                    self._await_room()
                self._log.write(buffers, place)
            except Exception as caught:  # noqa: BLE001 - handed to the event loop, which stops the writer
                error = caught
            if place.must_roll:
                self._note_roll(time.monotonic())
                self._wants.put(True)
            self._call_soon(partial(done, error))

    def _note_roll(self, now: float) -> None:
        self._is_rushed = now - self._rolled_at < RUSHED_S
        self._rolled_at = now

    def _await_room(self) -> None:
        """Wait until the file to roll into exists: a full disk delays a roll, it breaks nothing."""
        while not self._prepare() and not self._stopping.wait(RETRY_S):
            pass

    def _prepare_all(self) -> None:
        while self._wants.get():
            self._prepare()

    def _prepare(self) -> bool:
        """Have the next file made; tell whether it is there."""
        try:
            self._log.prepare_next(is_rushed=self._is_rushed)
        except OSError as error:
            # Not fatal: appends are refused while there is no room, and whoever is refused asks
            # for the file again.
            if self.prepare_error is None:
                _log.warning("no room for the next log file: %s", error)
            self.prepare_error = error
            return False
        self.prepare_error = None
        return True
