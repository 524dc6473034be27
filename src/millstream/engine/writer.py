"""The one writer: decide commands in order, sync them in groups, then answer and publish.

All that arrives while a sync runs is decided at once, gathered, and written with the next one.
There is no timer: the disk's own latency is the gathering window. Answers, refusals included,
wait until everything they may rest on is durable (I-03).
"""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

from millstream.core.errors import Code, Refused
from millstream.format.events import encode_event
from millstream.format.frame import KIND_EVENTS, KIND_MARK, encode_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.core.events import Event
    from millstream.core.machine import Command, Machine
    from millstream.core.streams.decide import Draft
    from millstream.engine.clock import Clock
    from millstream.storage.log import Place

_log = logging.getLogger(__name__)

_FRAME_BYTES_GUESS = 512
"""What a frame takes beside its messages, at most, as far as room is concerned."""
_LIGHT_COMMANDS = 1024
_UNDELIVERED = "an answer could not be delivered"


class Disk(Protocol):
    """The log as the writer uses it."""

    @property
    def seed(self) -> int:
        """What the checksums of this log's frames start from."""
        ...

    def plan(self, total_bytes: int) -> Place:
        """Say where the next batch goes. Never blocks."""
        ...

    @property
    def room(self) -> int:
        """Bytes that fit into the current file beside what was planned."""
        ...

    def has_room(self, total_bytes: int) -> bool:
        """Tell whether a batch of that size fits without waiting for disk space."""
        ...

    def write(
        self,
        buffers: list[bytes | memoryview],
        place: Place,
        done: Callable[[BaseException | None], None],
    ) -> None:
        """Write and sync in the background, then call ``done`` on the event loop."""
        ...


class Bounds(NamedTuple):
    """How much may wait for the disk."""

    commands_max: int
    bytes_max: int
    flush_bytes_max: int
    log_bytes_max: int
    reserve_bytes: int = 64 * 1024
    """Kept free for commands that carry no messages, so that a full disk can be cleared up."""


class Entry(msgspec.Struct, frozen=True, gc=False):
    """A decided command on its way to the disk."""

    callback: Callable[[object], None] | None
    answer: object
    events: tuple[Event, ...]
    data: tuple[bytes, ...]
    buffers: list[bytes | memoryview]
    frame_bytes: int
    weight: int = 1
    """0 for a mark, which nobody waits for."""
    size: int = 0
    """Bytes of messages that count against the budget until the answer is out."""


class Writer:
    """Owns the machine's order. Everything here runs on the event loop; only the disk does not."""

    def __init__(
        self,
        machine: Machine,
        disk: Disk,
        clock: Clock,
        bounds: Bounds,
        last_lsn: int,
    ) -> None:
        """Go on behind ``last_lsn``, which is durable."""
        self._machine = machine
        self._disk = disk
        self._seed = disk.seed
        self._clock = clock
        self._bounds = bounds
        self._inbox: deque[tuple[Command, Callable[[object], None] | None, int]] = deque()
        self._gathered: deque[Entry] = deque()
        self._gathered_bytes = 0
        self._in_flight: list[Entry] | None = None
        self._waiting = 0
        self._waiting_bytes = 0
        self._is_scheduled = False
        # Below both of these nothing is asked: it fits whatever else is true.
        self._light_commands = min(bounds.commands_max, _LIGHT_COMMANDS)
        self._light_bytes = -1
        self._lsn = last_lsn
        self._flush_lsn = last_lsn
        self._is_marked = True
        self.durable_lsn = last_lsn
        self.log_bytes = 0
        self.syncs = 0
        self.failure: BaseException | None = None
        self.is_stopping = False
        # Wired by the engine.
        self.schedule: Callable[[Callable[[], None]], object] = _unwired
        self.publish: Callable[[list[Entry], Place], None] = _unwired
        self.on_failure: Callable[[BaseException], None] = _unwired
        self.on_idle: Callable[[], None] | None = None

    @property
    def is_idle(self) -> bool:
        """Nothing waits, nothing is being written."""
        return self._waiting == 0 and self._in_flight is None and not self._gathered

    @property
    def waiting(self) -> int:
        """How many commands wait for the disk."""
        return self._waiting

    def submit(
        self,
        command: Command,
        callback: Callable[[object], None] | None,
        size: int = 0,
        *,
        is_own: bool = False,
    ) -> None:
        """Take a command; ``callback`` gets the answer once it is durable.

        ``size`` is the length of the messages it carries. A full inbox, a full log and a failed
        disk are answers too, and come at once. The engine's own commands (touches, expiries) are
        few and not refused for lack of room: reader and writer would part ways.
        """
        if self.failure is not None or self.is_stopping:
            _tell(callback, self._halted())
            return
        waiting, waiting_bytes = self._waiting + 1, self._waiting_bytes + size
        is_light = waiting <= self._light_commands and waiting_bytes <= self._light_bytes
        if not is_light and not is_own:
            refusal = self._admit(size)
            if refusal is not None:
                _tell(callback, refusal)
                return
        self._waiting = waiting
        self._waiting_bytes = waiting_bytes
        self._inbox.append((command, callback, size))
        if not self._is_scheduled:
            self._is_scheduled = True
            self.schedule(self._drain)

    def mark(self) -> None:
        """When the log is quiet: prove by one more frame that the last batch is durable.

        Without it, rot in the very last batch would look like a write that was cut short.
        """
        if self._is_marked or not self.is_idle or self.failure is not None:
            return
        self._is_marked = True
        self._lsn += 1
        buffers = encode_frame(self._lsn, self.durable_lsn, KIND_MARK, (), self._seed)
        size = sum(map(len, buffers))
        self._gathered.append(Entry(None, None, (), (), buffers, size, 0))
        self._gathered_bytes += size
        self._flush()

    def _halted(self) -> Refused | None:
        if self.failure is not None:
            return Refused(
                code=Code.STORAGE_FAILED,
                detail=f"the log stopped taking writes: {self.failure}",
                retry_after_s=30,
            )
        if self.is_stopping:
            return Refused(code=Code.STOPPING, detail="the server is stopping", retry_after_s=5)
        return None

    def _admit(self, size: int) -> Refused | None:
        bounds = self._bounds
        # A command that is alone is taken whatever it weighs: refused, it could never come in.
        is_heavy = self._waiting > 0 and self._waiting_bytes + size > bounds.bytes_max
        if self._waiting >= bounds.commands_max or is_heavy:
            return Refused(
                code=Code.OVERLOADED,
                detail=f"{self._waiting} commands wait for the disk already",
                retry_after_s=1,
            )
        if size:
            wanted = self._waiting_bytes + size + _FRAME_BYTES_GUESS * (self._waiting + 1)
            is_over = 0 < bounds.log_bytes_max < self.log_bytes + wanted
            if is_over or not self._disk.has_room(wanted + bounds.reserve_bytes):
                return Refused(
                    code=Code.LOG_FULL,
                    detail="the log has no room for more messages; reads and deletes go on",
                    retry_after_s=10,
                )
        return None

    def _room_for_sure(self, planned_bytes: int) -> int:
        """Return how many bytes of messages may wait without a look at the bounds and the disk.

        Behind a batch of ``planned_bytes``, that is, which is not yet counted as written. What
        waits counts in full until it is answered, although its room was planned before: so this
        errs on the safe side until the next batch is planned.
        """
        bounds = self._bounds
        room = self._disk.room
        if bounds.log_bytes_max > 0:
            room = min(room, bounds.log_bytes_max - self.log_bytes - planned_bytes)
        room -= bounds.reserve_bytes + _FRAME_BYTES_GUESS * _LIGHT_COMMANDS
        return min(room, bounds.bytes_max)

    def _drain(self) -> None:
        self._is_scheduled = False
        inbox = self._inbox
        machine, now_ms = self._machine, self._clock.now_ms()
        if self.failure is not None:
            self._refuse_inbox()
            return
        while inbox:
            command, callback, size = inbox.popleft()
            try:
                draft = machine.handle(command, now_ms)
                if draft.events:
                    self._gather(callback, draft, size)
                    continue
            except Exception as error:  # noqa: BLE001 - the machine may be half changed: stop for good
                name = type(command).__name__
                _log.critical("a %s command broke the machine", name, exc_info=error)
                self._waiting -= 1
                self._waiting_bytes -= size
                _tell(callback, Refused(code=Code.INTERNAL, detail="the server failed on this"))
                self._fail(error, [])
                return
            entry = Entry(callback, draft.answer, (), (), [], 0, size=size)
            if self._in_flight is None and not self._gathered:
                self._answer([entry])
            else:
                self._gathered.append(entry)
        if self._in_flight is None:
            self._flush()

    def _gather(self, callback: Callable[[object], None] | None, draft: Draft, size: int) -> None:
        answer, events, data = draft.answer, draft.events, draft.data
        self._lsn += 1
        self._is_marked = False
        if len(events) == 1:
            parts = [(encode_event(events[0]), data[0])]
        else:
            parts = [(encode_event(e), d) for e, d in zip(events, data, strict=True)]
        # Everything before this batch is on disk by the time the batch is written.
        buffers = encode_frame(self._lsn, self._flush_lsn, KIND_EVENTS, parts, self._seed)
        length = len(buffers[0]) if len(buffers) == 1 else sum(map(len, buffers))
        self._gathered_bytes += length
        self._gathered.append(Entry(callback, answer, events, data, buffers, length, 1, size))

    def _flush(self) -> None:
        gathered = self._gathered
        if not gathered:
            return
        if self._gathered_bytes <= self._bounds.flush_bytes_max:
            batch = list(gathered)
            gathered.clear()
            total, self._gathered_bytes = self._gathered_bytes, 0
        else:
            batch, total = self._take(self._bounds.flush_bytes_max)
        if total == 0:
            self._answer(batch)
            self._flush()
            return
        self._in_flight = batch
        written = sum(1 for entry in batch if entry.frame_bytes)
        durable_after = self._flush_lsn + written
        self._flush_lsn = durable_after
        place = self._disk.plan(total)
        self._light_bytes = self._room_for_sure(total)
        buffers = [buffer for entry in batch for buffer in entry.buffers]
        self._disk.write(
            buffers, place, lambda error: self._flushed(error, place, durable_after, total)
        )

    def _take(self, bytes_max: int) -> tuple[list[Entry], int]:
        batch: list[Entry] = []
        total = 0
        while self._gathered and (not batch or total + self._gathered[0].frame_bytes <= bytes_max):
            entry = self._gathered.popleft()
            batch.append(entry)
            total += entry.frame_bytes
        self._gathered_bytes -= total
        return batch, total

    def _flushed(
        self, error: BaseException | None, place: Place, durable_lsn: int, total: int
    ) -> None:
        batch, self._in_flight = self._in_flight, None
        if batch is None:
            # The machine broke while this batch was being written; all were told already.
            return
        if error is not None:
            self._fail(error, batch)
            return
        self.durable_lsn = durable_lsn
        self.log_bytes += total
        self.syncs += 1
        self.publish(batch, place)
        # The next batch goes to the disk before this one's answers are written to sockets.
        self._flush()
        self._answer(batch)

    def _answer(self, batch: list[Entry]) -> None:
        for entry in batch:
            callback = entry.callback
            if callback is not None:
                try:
                    callback(entry.answer)
                except Exception:  # noqa: BLE001 - reported, and the work goes on
                    _log.exception(_UNDELIVERED)
            self._waiting -= entry.weight
            self._waiting_bytes -= entry.size
        if self.on_idle is not None and self.is_idle:
            self.on_idle()

    def _fail(self, error: BaseException, batch: list[Entry]) -> None:
        """Stop for good: what the disk now holds is unknown, and the machine is ahead of it."""
        _log.critical("the log stopped taking writes: %s", error)
        self.failure = error
        in_flight, self._in_flight = self._in_flight or [], None
        refusal = Refused(
            code=Code.STORAGE_FAILED,
            detail="the write failed and may or may not be stored; a retry with the same"
            " producer sequence is safe once the server is back",
            retry_after_s=30,
        )
        entries = [*batch, *in_flight, *self._gathered]
        self._gathered.clear()
        self._gathered_bytes = 0
        for entry in entries:
            _tell(entry.callback, refusal)
        self._waiting = len(self._inbox)
        self._waiting_bytes = sum(size for _, _, size in self._inbox)
        self._refuse_inbox()
        self.on_failure(error)
        if self.on_idle is not None:
            self.on_idle()

    def _refuse_inbox(self) -> None:
        while self._inbox:
            _, callback, size = self._inbox.popleft()
            self._waiting -= 1
            self._waiting_bytes -= size
            _tell(callback, self._halted())


def _tell(callback: Callable[[object], None] | None, answer: object) -> None:
    """Give an answer to whoever waits for it; one that fails on it must not stop the others."""
    if callback is None:
        return
    try:
        callback(answer)
    except Exception:  # noqa: BLE001 - reported below, and the work goes on
        _log.exception(_UNDELIVERED)


def _unwired(*_: object) -> None:
    message = "the writer is used before the engine wired it"
    raise RuntimeError(message)
