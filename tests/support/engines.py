"""Engines for tests: a disk that waits to be let go, a clock that stands, directories in memory."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

from millstream.core.machine import Bounds as MachineBounds
from millstream.core.machine import Command, Machine
from millstream.engine.opening import EngineOptions, Opened, open_directory
from millstream.engine.writer import Bounds, Entry, Writer
from millstream.format.events import decode_event
from millstream.storage.log import Log, Place
from millstream.storage.ports import Files
from millstream.storage.recovery import Recovery
from millstream.testing.files_memory import MemoryDisk
from tests.support.logs import LOG, options
from tests.support.machines import START_MS

DATA = "data"
WIDE = Bounds(commands_max=1000, bytes_max=1 << 20, flush_bytes_max=1 << 20, log_bytes_max=0)


class StandingClock:
    """A clock that stands until it is moved."""

    def __init__(self, now_ms: int = START_MS) -> None:
        self.value_ms = now_ms

    def now_ms(self) -> int:
        """The time it was set to."""
        return self.value_ms


class HeldDisk:
    """A real log on a disk in memory, whose every write waits until the test lets it go."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.held: list[
            tuple[list[bytes | memoryview], Place, Callable[[BaseException | None], None]]
        ] = []
        self.is_full = False
        self.asked_room: list[int] = []

    @property
    def seed(self) -> int:
        return self.log.seed

    def plan(self, total_bytes: int) -> Place:
        return self.log.plan(total_bytes)

    @property
    def room(self) -> int:
        return -1  # So that every command asks for room.

    def has_room(self, total_bytes: int) -> bool:
        self.asked_room.append(total_bytes)
        return not self.is_full

    def write(
        self,
        buffers: list[bytes | memoryview],
        place: Place,
        done: Callable[[BaseException | None], None],
    ) -> None:
        self.held.append((buffers, place, done))

    def release(self) -> None:
        """Write and sync the oldest held batch, and report."""
        buffers, place, done = self.held.pop(0)
        error: BaseException | None = None
        try:
            self.log.write(buffers, place)
        except Exception as caught:  # noqa: BLE001 - handed on, as the thread does
            error = caught
        done(error)


class Bench:
    """A writer on a held disk, its loop turned by hand."""

    def __init__(self, bounds: Bounds = WIDE, file_bytes: int = 1 << 16) -> None:
        self.memory = MemoryDisk()
        recovery = Recovery.open(self.memory.files, LOG, options(file_bytes))
        assert list(recovery.frames()) == []
        self.disk = HeldDisk(recovery.finish())
        self.machine = Machine(MachineBounds())
        self.clock = StandingClock()
        self.writer = Writer(self.machine, self.disk, self.clock, bounds, 0)
        self.soon: list[Callable[[], None]] = []
        self.published: list[Entry] = []
        self.failures: list[BaseException] = []
        self.answers: dict[str, object] = {}
        self.writer.schedule = self.soon.append
        self.writer.publish = lambda batch, _place: self.published.extend(batch)
        self.writer.on_failure = self.failures.append

    def submit(self, name: str, command: Command, size: int = 0) -> None:
        """Give a command; its answer will be `answers[name]`."""

        def answer(result: object) -> None:
            assert name not in self.answers, "one command, one answer"
            self.answers[name] = result

        self.writer.submit(command, answer, size)

    def turn(self) -> None:
        """Let the event loop run what is scheduled."""
        while self.soon:
            self.soon.pop(0)()

    def do(self, name: str, command: Command, size: int = 0) -> object:
        """Submit, decide, write, answer."""
        self.submit(name, command, size)
        self.turn()
        while self.disk.held:
            self.disk.release()
        return self.answers[name]

    def frames(self) -> list[tuple[int, int, list[str]]]:
        """What a restart after a power loss finds: (lsn, durable lsn, kinds of events)."""
        stable = next(self.memory.crash_states(1))
        recovery = Recovery.open(stable.files, LOG, options())
        return [
            (
                placed.frame.lsn,
                placed.frame.durable_lsn,
                [type(decode_event(meta)).__name__ for meta, _ in placed.parts()],
            )
            for placed in recovery.frames()
        ]


SMALL = EngineOptions(log_file_bytes=1 << 16, hot_bytes_max=1 << 20)


@contextlib.asynccontextmanager
async def opened(
    files: Files, clock: StandingClock | None = None, sizes: EngineOptions = SMALL
) -> AsyncIterator[Opened]:
    """Open the data directory on a disk, and close it properly at the end."""
    directory = await open_directory(DATA, sizes, files, clock or StandingClock())
    try:
        yield directory
    finally:
        await directory.close()


@contextlib.contextmanager
def watching(memory: MemoryDisk, act: Callable[[str], None]) -> Iterator[None]:
    """Call `act` with the kind of every operation of a disk."""
    memory.watch = lambda operation: act(operation.kind)
    try:
        yield
    finally:
        memory.watch = None
