"""The real engine on a disk in memory, driven by a seeded life of commands, step by step.

No threads and no clock: the same seed gives the same operations on the disk, so a test can stop
the world behind any of them and ask what a power loss would leave.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from millstream.core.machine import Bounds, Command, Machine
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import (
    Added,
    Append,
    Body,
    Created,
    CreateStream,
    DeleteStream,
    Done,
    ForkRequest,
)
from millstream.core.subscriptions.commands import (
    Ack,
    AckWake,
    Claimed,
    ClaimWake,
    CreateSubscription,
    Grant,
)
from millstream.core.subscriptions.events import SubscriptionConfig
from millstream.engine import forking
from millstream.engine.engine import Engine, State
from millstream.engine.replay import replay
from millstream.engine.snapshotting import dump
from millstream.engine.views import Views
from millstream.engine.writer import Bounds as WriteBounds
from millstream.format.frame import Frame, decode_frame
from millstream.storage.log import Log, LogOptions, Place
from millstream.storage.ports import Files
from millstream.storage.recovery import Placed
from millstream.storage.snapshots import Snapshots
from millstream.testing.files_memory import MemoryDisk

DIRECTORY = "data"
JSON = "application/json"
OCTETS = "application/octet-stream"
FILE_BYTES = 4096


def options(file_bytes: int = FILE_BYTES) -> LogOptions:
    return LogOptions(file_bytes=file_bytes, fresh_id=bytes(range(16)))


class ManualClock:
    """Tells the time it was told."""

    def __init__(self) -> None:
        self.ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.ms


class Stored(NamedTuple):
    """An answered append: these messages end at this index of that stream."""

    stream_id: int
    end_index: int
    messages: tuple[bytes, ...]
    claim: Claim | None


class InlineDisk:
    """A ``Disk`` of the writer that blocks, and keeps every frame it was given."""

    def __init__(self, log: Log, call_soon: Callable[..., object]) -> None:
        self._log = log
        self._call_soon = call_soon
        self.given: list[Placed] = []

    @property
    def seed(self) -> int:
        return self._log.seed

    def plan(self, total_bytes: int) -> Place:
        return self._log.plan(total_bytes)

    @property
    def room(self) -> int:
        return self._log.room

    def has_room(self, total_bytes: int) -> bool:
        return True

    def write(
        self,
        buffers: list[bytes | memoryview],
        place: Place,
        done: Callable[[BaseException | None], None],
    ) -> None:
        data = memoryview(b"".join(buffers))
        at = 0
        while at < len(data):
            frame = decode_frame(data, at, self.seed)
            assert isinstance(frame, Frame)
            view = data[at : at + frame.length]
            self.given.append(Placed(place.ordinal, place.position + at, frame, view))
            at += frame.length
        error: BaseException | None = None
        try:
            self._log.write(buffers, place)
        except Exception as caught:  # noqa: BLE001 - handed on, as the real one does
            error = caught
        self._call_soon(done, error)


class Bench:
    """One life of a data directory: what was asked, what was answered, what the disk was given."""

    def __init__(self, disk: MemoryDisk, seed: int, *, file_bytes: int = FILE_BYTES) -> None:
        self.disk = disk
        self.rng = random.Random(seed)
        self.sizes: tuple[int, ...] = (0, 5, 40, 40, 300, 900)
        self.clock = ManualClock()
        self.file_bytes = file_bytes
        self.stored: list[Stored] = []
        self.deleted: set[int] = set()
        self.created: set[int] = set()
        self.closed: set[int] = set()
        self.answers = 0
        self._seqs: dict[tuple[str, str], int] = {}
        self._serial = 0
        self._open: dict[str, str] = {}
        self._ids: dict[str, int] = {}
        self._held: Claimed | None = None
        self.inline: InlineDisk
        self.log: Log
        self.machine: Machine
        self.engine: Engine
        self.snapshots: Snapshots

    @property
    def given(self) -> list[Placed]:
        """Every frame that was handed to the disk, in the order of their LSNs."""
        return self.inline.given if hasattr(self, "inline") else []

    def start(self) -> None:
        """Recover and go on, on the running event loop."""
        loop = asyncio.get_running_loop()
        found = replay(
            self.disk.files, DIRECTORY, options(self.file_bytes), Bounds(), hot_bytes_max=300
        )
        self.log = found.recovery.finish()
        self.inline = InlineDisk(self.log, loop.call_soon)
        bounds = WriteBounds(10_000, 1 << 24, self.file_bytes // 2, 0)
        self.machine, self.snapshots = found.machine, found.snapshots
        state = State(found.machine, found.views, found.lsn)
        self.engine = Engine(state, self.inline, self.log.read, self.clock, bounds)
        self.engine.start(loop)
        # The bench says when the log is idle.
        self.engine._mark_handle = loop.call_later(3600, lambda: None)

    async def burst(self, *commands: Command) -> list[object]:
        """Give commands in one breath and await all answers."""
        futures = [self.engine.ask(command, _size(command)) for command in commands]
        for command, future in zip(commands, futures, strict=True):
            future.add_done_callback(partial(self._note, command))
        return list(await asyncio.gather(*futures))

    def _note(self, command: Command, done: asyncio.Future[object]) -> None:
        self.answers += 1
        answer = done.result()
        match command, answer:
            case Append(body=Body() as body), Added():
                if body.count:
                    parts = tuple(split(body.data, body.lengths))
                    self.stored.append(
                        Stored(answer.stream_id, answer.tail.index, parts, command.claim)
                    )
                if answer.is_closed:
                    self.closed.add(answer.stream_id)
            case CreateStream(), Created(is_new=True):
                self.created.add(answer.stream_id)
            case DeleteStream(), Done():
                self.deleted.add(self._ids[command.path])
            case AckWake(), _:
                self._held = None
            case ClaimWake(), Claimed():
                self._held = answer
            case _:
                pass

    async def setup(self) -> None:
        """Make the first streams and a subscription."""
        await self._create("wake", JSON)
        for path, kind in (("events/a", JSON), ("events/b", JSON), ("raw/c", OCTETS)):
            await self._create(path, kind)
        config = SubscriptionConfig("pull-wake", "events/*", (), None, "wake", 60_000, None)
        await self.burst(CreateSubscription("sub", config, "http://127.0.0.1"))

    async def _create(self, path: str, kind: str, **extra: object) -> None:
        command = CreateStream(path=path, content_type=kind, **extra)  # type: ignore[arg-type]
        (answer,) = await self.burst(command)
        if isinstance(answer, Created):
            self._ids[path] = answer.stream_id
            if path != "wake":
                self._open[path] = answer.content_type

    def append(self, path: str, producer: str | None, *, is_closing: bool = False) -> Append:
        """Return the next append of a producer; its messages are found nowhere else."""
        kind = self._open[path]
        claim, name = None, "none.0.0"
        if producer is not None:
            seq = self._seqs[path, producer] = self._seqs.get((path, producer), -1) + 1
            claim = Claim(producer, 0, seq)
            name = f"{producer}.0.{seq}"
        count = self.rng.choice((1, 1, 2, 5)) if kind == JSON else 1
        values = [self._message(f"{name}.{k}") for k in range(count)]
        lengths = b"".join(len(v).to_bytes(4, "little") for v in values) if count > 1 else b""
        return Append(path, kind, Body(b",".join(values), count, lengths), is_closing, claim)

    def _message(self, name: str) -> bytes:
        self._serial += 1
        size = self.rng.choice(self.sizes)
        return f'"{name}.{self._serial}:{"x" * size}"'.encode()

    async def step(self) -> None:
        """Do one thing, chosen by the seed."""
        self.clock.ms += self.rng.choice((0, 1, 7, 1000))
        paths = sorted(self._open)
        roll = self.rng.random()
        if roll < 0.62:
            appends = []
            for _ in range(self.rng.choice((1, 1, 2, 4, 7))):
                producer = self.rng.choice(("a", "b", None))
                appends.append(self.append(self.rng.choice(paths), producer))
            if self.rng.random() < 0.3 and appends[0].claim:
                appends.append(appends[0])
            await self.burst(*appends)
        elif roll < 0.68:
            await self._create(
                f"events/n{self._serial}", JSON, body=Body(self._message("none.0.0.0"), 1)
            )
        elif roll < 0.75:
            await self._fork(self.rng.choice(paths))
        elif roll < 0.80 and len(paths) > 3:
            path = self.rng.choice(paths[:-1])
            await self.burst(self.append(path, "a", is_closing=True))
            del self._open[path]
        elif roll < 0.86 and len(paths) > 3:
            path = self.rng.choice(paths)
            del self._open[path]
            await self.burst(DeleteStream(path))
        elif roll < 0.93:
            await self._work()
        elif roll < 0.97:
            self.snapshot()
        else:
            await self.mark()
        if self.rng.random() < 0.4:
            self.log.prepare_next()

    async def _fork(self, source: str) -> None:
        request = ForkRequest(source, None, 0)
        point = await forking.resolve(self.engine, request)
        path = f"fork/f{self._serial}"
        self._serial += 1
        await self._create(path, self._open[source], fork=point, fork_request=request)

    async def _work(self) -> None:
        """Let a worker claim the wake, or ack what it holds."""
        held = self._held
        if held is None:
            await self.burst(ClaimWake("sub", "worker"))
            return
        grant = Grant("claim", "sub", held.sub_no, held.generation, held.wake_id)
        acks = tuple(Ack(link.path, link.tail) for link in held.links if link.has_pending)
        await self.burst(AckWake("sub", grant, held.wake_id, held.generation, acks, is_done=True))

    def snapshot(self) -> None:
        """Write a snapshot of the state; the log must be idle."""
        lsn = self.engine.writer.durable_lsn
        if self.engine.writer.failure is not None:
            # The state is ahead of the disk: nobody takes a snapshot then.
            return
        self.snapshots.write(lsn, dump(self.machine, self.engine.views))
        self.snapshots.prune()

    async def mark(self) -> None:
        """Let the log note that it is idle."""
        self.engine.writer.mark()
        writer = self.engine.writer
        while not writer.is_idle and writer.failure is None:  # noqa: ASYNC110 - nothing else runs
            await asyncio.sleep(0)

    async def live(self, steps: int) -> None:
        """Start, set up, and take so many steps."""
        self.start()
        await self.setup()
        for _ in range(steps):
            if self.engine.writer.failure is not None:
                return
            await self.step()

    async def stop(self) -> None:
        """End in order: mark, last snapshot."""
        await self.mark()
        self.snapshot()
        self.log.close()


def _size(command: Command) -> int:
    if isinstance(command, Append) and isinstance(command.body, Body):
        return len(command.body.data)
    return 0


def split(data: bytes, lengths: bytes) -> list[bytes]:
    """Cut an append into its messages; values of JSON are joined by one byte."""
    if not lengths:
        return [data]
    parts = []
    for at in range(0, len(lengths), 4):
        size = int.from_bytes(lengths[at : at + 4], "little")
        parts.append(data[:size])
        data = data[size + 1 :]
    return parts


def read_all(views: Views, log: Log) -> dict[int, list[bytes]]:
    """Return every message of every stream, each read on its own, sources included."""
    from millstream.engine import pages

    found: dict[int, list[bytes]] = {}
    for tail in views.all():
        messages: list[bytes] = []
        while len(messages) < tail.index:
            plan = pages.plan(tail, len(messages), 1 << 20, 1)
            page = pages.assemble(pages.fetch(plan, log.read), is_json=tail.is_json)
            assert page.end == len(messages) + 1
            messages.append(b"".join(page.parts))
        found[tail.stream_id] = messages
    return found


def state_records(machine: Machine, views: Views) -> tuple[bytes, ...]:
    """Return the whole state in a form that can be compared."""
    return tuple(dump(machine, views))


def recover(files: Files, file_bytes: int = FILE_BYTES) -> tuple[Machine, Views, int, Log]:
    """Open the directory as a start does; return the state, the LSN reached and the log."""
    found = replay(files, DIRECTORY, options(file_bytes), Bounds(), 0)
    return found.machine, found.views, found.lsn, found.recovery.finish()
