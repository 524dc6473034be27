"""One life of a simulated server: the real engine on a memory disk and a seeded loop.

The only stand-in is the thread that writes the log: its work is put on the loop with delays that
the seed chooses, so that commands, answers, failures and power losses fall between all its steps.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from millstream.core.machine import Bounds
from millstream.engine import pages
from millstream.engine.engine import Engine, State
from millstream.engine.replay import replay
from millstream.engine.snapshotting import dump
from millstream.engine.writer import Bounds as WriteBounds
from millstream.storage.log import Log, LogOptions, Place
from millstream.testing.ledger import Seen

if TYPE_CHECKING:
    import random

    from millstream.engine.tails import Tail
    from millstream.testing.files_memory import MemoryDisk
    from millstream.testing.seeded_loop import SeededLoop

DIRECTORY = "data"
FILE_BYTES = 6000
HOT_BYTES_MAX = 300


class PowerLoss(BaseException):
    """The simulated machine stops here; nothing but the simulation catches this."""


class SlowDisk:
    """The log as the writer uses it, on a loop in place of a thread."""

    def __init__(self, log: Log, loop: SeededLoop, rng: random.Random) -> None:
        """Write to ``log`` after delays that ``rng`` chooses."""
        self._log = log
        self._loop = loop
        self._rng = rng
        self.is_poisoned = False

    def plan(self, total_bytes: int) -> Place:
        """Say where the next batch goes."""
        return self._log.plan(total_bytes)

    @property
    def seed(self) -> int:
        """What the checksums of this log's frames start from."""
        return self._log.seed

    @property
    def room(self) -> int:
        """Bytes that fit into the current file beside what was planned."""
        return self._log.room

    def has_room(self, _total_bytes: int) -> bool:
        """Tell that there is room: a full disk shows itself as a failed write."""
        return True

    def write(
        self,
        buffers: list[bytes | memoryview],
        place: Place,
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Write and sync after a while, and tell of it after another."""

        def work() -> None:
            error: BaseException | None = None
            try:
                self._log.write(buffers, place)
            except Exception as caught:  # noqa: BLE001 - handed to the writer, as the thread does
                error = caught
                self.is_poisoned = True
            self._loop.call_later(self._delay_s(), done, error)

        self._loop.call_later(self._delay_s(), work)

    def _delay_s(self) -> float:
        scale = self._rng.choice((50, 500, 5000, 20_000))
        return self._rng.randrange(scale) / 1_000_000


class Life:
    """A server from its start to its end. Raises what a real start would raise."""

    def __init__(
        self, disk: MemoryDisk, loop: SeededLoop, rng: random.Random, fresh_id: bytes
    ) -> None:
        """Recover the data directory and go on with it."""
        self.disk = disk
        self.loop = loop
        self._options = LogOptions(file_bytes=FILE_BYTES, fresh_id=fresh_id)
        self._tasks: list[Any] = []
        disk.files.mkdir(DIRECTORY)
        found = replay(disk.files, DIRECTORY, self._options, Bounds(), HOT_BYTES_MAX)
        self.snapshots = found.snapshots
        self.log = found.recovery.finish()
        self.slow_disk = SlowDisk(self.log, loop, rng)
        bounds = WriteBounds(1000, 1 << 20, 3000, 0)
        state = State(found.machine, found.views, found.lsn)
        self.machine = found.machine
        self.engine = Engine(state, self.slow_disk, self.log.read, loop, bounds)
        self.engine.start(loop.as_loop)

    def start_task(self, work: Any, done: Callable[[Any], None]) -> None:
        """Run a coroutine; ``done`` gets its result unless this life ends first."""
        task = self.loop.create_task(work)
        task.add_done_callback(lambda finished: done(finished.result()))
        self._tasks = [each for each in self._tasks if not each.done()] + [task]

    def snapshot(self) -> None:
        """Do what the snapshotter does: replay the durable log beside the server, and keep that."""
        lsn = self.engine.writer.durable_lsn
        found = replay(self.disk.files, DIRECTORY, self._options, Bounds(), 0, up_to=lsn)
        if found.lsn > found.snapshot_lsn:
            found.snapshots.write(found.lsn, dump(found.machine, found.views))
            found.snapshots.prune()

    def stop(self) -> None:
        """End in order, as SIGTERM does."""
        self.loop.finish(self.engine.stop(5))
        writer = self.engine.writer
        if writer.failure is None and writer.durable_lsn > self.snapshots.newest_lsn:
            self.snapshots.write(writer.durable_lsn, dump(self.machine, self.engine.views))
            self.snapshots.prune()
        self.log.close()

    def forget(self) -> None:
        """Let go of what was under way when the power went."""
        for task in self._tasks:
            task.get_coro().close()

    def messages(self, tail: Tail) -> list[Seen]:
        """Return every message of a stream as a reader gets them, page by page."""
        found: list[Seen] = []
        while len(found) < tail.index:
            plan = pages.plan(tail, len(found), 400, 7)
            page = pages.assemble(pages.fetch(plan, self.log.read), is_json=True)
            found += [
                Seen(data, tail.time_at(len(found) + number))
                for number, data in enumerate(split(page.parts), 1)
            ]
        return found


def split(parts: list[bytes]) -> list[bytes]:
    """Return the messages of a page; no client of the simulation writes a comma."""
    return b",".join(parts).split(b",")
