"""The engine: one data directory, open. Commands in, durable answers and live views out."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

from millstream.core.errors import Code, Refused
from millstream.core.events import Appended, StreamCreated
from millstream.core.streams.commands import ExpireStream, TouchStream
from millstream.core.streams.state import Life
from millstream.engine import pages
from millstream.engine.extents import pack_place
from millstream.engine.timers import Timers
from millstream.engine.writer import Writer
from millstream.storage.damage import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.core.events import Event
    from millstream.core.machine import Command, Machine
    from millstream.engine.clock import Clock
    from millstream.engine.pages import Message, Page, Plan
    from millstream.engine.tails import Tail
    from millstream.engine.views import Views
    from millstream.engine.writer import Bounds, Disk, Entry
    from millstream.storage.log import Place

_log = logging.getLogger(__name__)

MARK_DELAY_S = 0.05
EXPIRY_RETRY_MS = 1000
READ_THREADS = 4
COLD_PAGE_BYTES = 1 << 20
"""A page in memory is nobody's copy; one from disk is held for its reader alone until it is sent,
so it is kept small."""


class State(NamedTuple):
    """What a data directory holds, as of frame ``lsn``."""

    machine: Machine
    views: Views
    lsn: int


class Engine:
    """Everything a door needs: submit, look, read, watch."""

    def __init__(
        self,
        state: State,
        disk: Disk,
        read_frame: Callable[[int, int, int], bytes],
        clock: Clock,
        bounds: Bounds,
    ) -> None:
        """Go on from ``state``. Call ``start`` on the event loop before anything else."""
        self.clock = clock
        self.views = state.views
        self._machine = state.machine
        self._read_frame = read_frame
        self.writer = Writer(state.machine, disk, clock, bounds, state.lsn)
        self.timers: Timers
        self._observers: list[Callable[[Event], None]] = []
        self._loop: asyncio.AbstractEventLoop
        self._mark_handle: asyncio.TimerHandle | None = None
        self._readers = ThreadPoolExecutor(READ_THREADS, thread_name_prefix="millstream-read")
        self.on_batch: Callable[[int], None] | None = None
        self.appended_messages = 0
        self.appended_bytes = 0
        self.cold_reads = 0

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Take up work on ``loop``: timers for every deadline that the state holds."""
        self._loop = loop
        self.writer.schedule = loop.call_soon
        self.writer.publish = self._publish
        self.writer.on_failure = self._failed
        self.timers = Timers(self.clock, self.submit, loop.call_later)
        self._observers.append(self._watch_expiry)
        self._machine.settle(self.clock.now_ms())
        for stream in self._machine.streams.by_id.values():
            tail = self.views.by_id(stream.stream_id)
            if tail is not None and stream.deadline_ms:
                tail.deadline_ms = stream.deadline_ms
                self.timers.at(stream.deadline_ms, self._expiry(tail))

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Call ``observer`` for every event but appends, once it is durable and visible.

        Appends are nearly all there is; who wants to know of them watches their stream.
        """
        self._observers.append(observer)

    def submit(
        self, command: Command, callback: Callable[[object], None] | None = None, size: int = 0
    ) -> None:
        """Have a command decided and made durable; ``callback`` then gets the answer."""
        self.writer.submit(command, callback, size)

    def ask(self, command: Command, size: int = 0) -> asyncio.Future[object]:
        """Have a command decided and made durable, and await the answer."""
        future: asyncio.Future[object] = self._loop.create_future()

        def settle(answer: object) -> None:
            if not future.done():
                future.set_result(answer)

        self.writer.submit(command, settle, size)
        return future

    def find(self, path: str) -> Tail | Refused:
        """Return the stream that readers find at ``path`` now."""
        return self.views.find(path, self.clock.now_ms())

    def end_expired(self, path: str, then: Callable[[], None]) -> bool:
        """If the stream at ``path`` is over, make that durable and call ``then``.

        Returns False, and calls nothing, when there is no such stream: whoever was told that a
        stream has expired must not find it again after a crash (I-29).
        """
        tail = self.views.expiring(path, self.clock.now_ms())
        if tail is None or self.writer.failure is not None:
            return False
        self.writer.submit(ExpireStream(tail.stream_id), lambda _answer: then(), is_own=True)
        return True

    def touch(self, tail: Tail) -> None:
        """Note that a reader came by: a sliding expiry slides."""
        if tail.ttl_s is not None:
            now_ms = self.clock.now_ms()
            tail.deadline_ms = max(tail.deadline_ms, now_ms + tail.ttl_s * 1000)
            # With the time of the read: decided later, it must not find the stream expired.
            self.writer.submit(TouchStream(tail.stream_id, now_ms), None, is_own=True)

    def read_hot(self, tail: Tail, index: int, bytes_max: int, count_max: int) -> Page | None:
        """Return the page behind ``index`` if all of it is in memory."""
        page = pages.hot_page(tail, index, bytes_max, count_max)
        if page is not None:
            return page
        found = pages.plan(tail, index, bytes_max, count_max)
        return pages.assemble(found, is_json=tail.is_json) if found.is_hot else None

    async def read(self, tail: Tail, index: int, bytes_max: int, count_max: int) -> Page | Refused:
        """Return the page behind ``index``, from disk where it must be.

        What does not check out on disk is never served: the answer is then a refusal.
        """
        found = await self._planned(tail, index, bytes_max, count_max)
        if isinstance(found, Refused):
            return found
        return pages.assemble(found, is_json=tail.is_json)

    async def read_messages(
        self, tail: Tail, index: int, bytes_max: int, count_max: int
    ) -> list[Message] | Refused:
        """Return the messages of the page behind ``index``, each with its own place in time."""
        found = await self._planned(tail, index, bytes_max, count_max)
        return found if isinstance(found, Refused) else pages.separate(found, tail)

    async def _planned(
        self, tail: Tail, index: int, bytes_max: int, count_max: int
    ) -> Plan | Refused:
        """Return the page behind ``index`` with all its bytes in memory."""
        found = pages.plan(tail, index, bytes_max, count_max)
        if not found.is_hot:
            self.cold_reads += 1
            if bytes_max > COLD_PAGE_BYTES:
                found = pages.plan(tail, index, COLD_PAGE_BYTES, count_max)
            try:
                found = await self._loop.run_in_executor(
                    self._readers, pages.fetch, found, self._read_frame
                )
            except (StorageError, OSError, LookupError) as error:
                _log.critical("stream %r cannot be read: %s", tail.path, error)
                return Refused(
                    code=Code.DATA_DAMAGED,
                    detail="the stored messages do not check out; the operator finds the place"
                    " in the server's log and with `millstream verify`",
                )
        return found

    async def stop(self, limit_s: float) -> None:
        """Take no more commands, finish those that were taken, and mark the log's end.

        A disk that does not answer within ``limit_s`` is left behind: nothing it had not
        confirmed was ever shown or acknowledged.
        """
        self.writer.is_stopping = True
        if self._mark_handle is not None:
            self._mark_handle.cancel()
        self.timers.stop()
        await self._idle(limit_s)
        self.writer.mark()
        await self._idle(limit_s)
        self._readers.shutdown(wait=True)

    async def _idle(self, limit_s: float) -> None:
        if self.writer.is_idle or self.writer.failure is not None:
            return
        idle = asyncio.Event()
        self.writer.on_idle = idle.set
        try:
            await asyncio.wait_for(idle.wait(), limit_s)
        except TimeoutError:
            _log.error(
                "the disk did not answer in time; %d commands go unanswered", self.writer.waiting
            )
        self.writer.on_idle = None

    def _publish(self, batch: list[Entry], place: Place) -> None:
        views, observers = self.views, self._observers
        where = pack_place(place.ordinal, place.position)
        messages = size = 0
        for entry in batch:
            frame_bytes = entry.frame_bytes
            for event, data in zip(entry.events, entry.data, strict=True):
                if isinstance(event, Appended):
                    views.append(event, data, where, frame_bytes)
                    messages += event.count
                    size += len(data)
                    continue
                views.apply(event, data, where, frame_bytes)
                for observer in observers:
                    _observe(observer, event)
            # A batch lies in one file, so the packed place moves as the position does.
            where += frame_bytes
        self.appended_messages += messages
        self.appended_bytes += size
        for tail in views.take_changed():
            tail.notify()
        if self.on_batch is not None:
            self.on_batch(len(batch))
        if self._mark_handle is None:
            self._mark_handle = self._loop.call_later(MARK_DELAY_S, self._mark)

    def _mark(self) -> None:
        self._mark_handle = None
        self.writer.mark()

    def _failed(self, error: BaseException) -> None:
        _log.critical("reads go on, writes are refused until a restart: %s", error)

    def _expiry(self, tail: Tail) -> Callable[[], None]:
        """Return what to do when a stream's deadline may have come."""

        def check() -> None:
            if tail.is_removed or not tail.deadline_ms:
                return
            if tail.deadline_ms > self.clock.now_ms():
                self.timers.at(tail.deadline_ms, check)
            else:
                self.writer.submit(ExpireStream(tail.stream_id), look_again, is_own=True)

        def look_again(_answer: object) -> None:
            # An append that was on its way may have moved the deadline, or the inbox was full.
            if not tail.is_removed and tail.life is Life.LIVE:
                soon_ms = self.clock.now_ms() + EXPIRY_RETRY_MS
                self.timers.at(max(tail.deadline_ms, soon_ms), check)

        return check

    def _watch_expiry(self, event: Event) -> None:
        """Observe creations, to have an eye on every deadline."""
        if isinstance(event, StreamCreated):
            tail = self.views.by_id(event.stream_id)
            if tail is not None and tail.deadline_ms:
                self.timers.at(tail.deadline_ms, self._expiry(tail))


def _observe(observer: Callable[[Event], None], event: Event) -> None:
    try:
        observer(event)
    except Exception:  # noqa: BLE001 - reported below, and the work goes on
        # The event is durable whatever an observer makes of it; the writer must go on.
        _log.exception("an observer failed on %s", type(event).__name__)
