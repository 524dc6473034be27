"""Deliberate breakages, one per promise: a check that stays green under its breakage is blind.

Each is applied to the classes of this process only: inside a test, or in a server that a test
starts through `python -c "from tests.support.sabotage import run; run('name')" serve ...`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from millstream.core.events import Appended, ProducerMoved
from millstream.core.producers.judge import Accept
from millstream.core.streams import decide
from millstream.core.streams.decide import Draft
from millstream.engine.writer import Disk, Writer
from millstream.format import frame, logfile, snapshot
from millstream.storage import log as storage_log
from millstream.storage import recovery, snapshots
from millstream.storage.files_os import OsFiles, OsHandle
from millstream.storage.log import Place
from millstream.storage.ports import Buffer, Handle
from millstream.testing.files_memory import MemoryFiles, MemoryHandle

Patch = Callable[[object, str, object], None]


def answer_before_sync(patch: Patch) -> None:
    """Sync a batch only when the next one is written."""
    waiting: dict[int, Handle] = {}
    real = storage_log.Log._write

    class Lazy:
        def __init__(self, handle: Handle) -> None:
            self._handle = handle

        def fdatasync(self) -> None:
            waiting[id(self._handle)] = self._handle

        def __getattr__(self, name: str) -> Any:
            return getattr(self._handle, name)

    def write(self: storage_log.Log, buffers: Sequence[Buffer], place: Place) -> None:
        for handle in list(waiting.values()):
            handle.fdatasync()
        waiting.clear()
        if not isinstance(self._handle, Lazy):
            self._handle = Lazy(self._handle)
        real(self, buffers, place)

    patch(storage_log.Log, "_write", write)


def publish_before_sync(patch: Patch) -> None:
    """Let readers see a batch as soon as it is handed to the disk."""

    def publish(writer: Writer, place: Place) -> None:
        real = writer.__dict__.setdefault("publish_real", writer.publish)
        real(writer._in_flight, place)
        writer.publish = lambda *_: None

    _hurry(patch, publish)


def answer_at_once(patch: Patch) -> None:
    """Answer a batch as soon as it is handed to the disk."""

    def answer(writer: Writer, _place: Place) -> None:
        batch = writer._in_flight or []
        for entry in batch:
            if entry.callback is not None:
                entry.callback(entry.answer)
        writer._in_flight = [msgspec.structs.replace(entry, callback=None) for entry in batch]

    _hurry(patch, answer)


def _hurry(patch: Patch, act: Callable[[Writer, Place], None]) -> None:
    """Have ``act`` called with every batch that is in flight, before it is written."""
    init = Writer.__init__

    class Early:
        def __init__(self, writer: Writer, disk: Disk) -> None:
            self._writer = writer
            self._disk = disk

        def write(self, buffers: Any, place: Place, done: Any) -> None:
            act(self._writer, place)
            self._disk.write(buffers, place, done)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._disk, name)

    def start(self: Writer, machine: Any, disk: Disk, *rest: Any) -> None:
        init(self, machine, disk, *rest)
        self._disk = Early(self, disk)

    patch(Writer, "__init__", start)


def skip_dedup(patch: Patch) -> None:
    """Take every batch of a producer for a new one."""
    patch(decide, "judge", lambda _last, _claim: Accept())


def split_the_frame(patch: Patch) -> None:
    """Write what is known of a producer in a frame of its own, behind its messages."""
    real = Writer._gather

    def gather(self: Writer, callback: Any, draft: Draft, size: int) -> None:
        first = draft.events[0]
        if not isinstance(first, Appended) or first.producer_id is None:
            real(self, callback, draft, size)
            return
        bare = msgspec.structs.replace(first, producer_id=None, producer_epoch=0, producer_seq=0)
        moved = ProducerMoved(
            first.stream_id, first.producer_id, first.producer_epoch, first.producer_seq
        )
        self._waiting += 1
        real(self, None, msgspec.structs.replace(draft, events=(bare, *draft.events[1:])), size)
        real(self, callback, Draft((moved,), (b"",), draft.answer), 0)

    patch(Writer, "_gather", gather)


def no_directory_sync(patch: Patch) -> None:
    """Leave names to the file system."""
    patch(MemoryFiles, "sync_dir", lambda _self, _path: None)
    patch(OsFiles, "sync_dir", lambda _self, _path: None)


def no_checksum(patch: Patch) -> None:
    """Take all bytes for whole."""
    for module in (frame, snapshot, snapshots, logfile):
        patch(module, "crc32c", lambda _data, _crc=0: 0)


def cut_at_the_first_bad_frame(patch: Patch) -> None:
    """Take whatever follows a bad frame for a torn tail, proven durable or not."""
    patch(recovery, "_require_whole", lambda *_: None)
    patch(recovery.FileScan, "proof_position", lambda _self: None)


def retry_a_failed_sync(patch: Patch) -> None:
    """Ask again when a sync fails: the second one succeeds and proves nothing."""
    for kind in (MemoryHandle, OsHandle):
        real = kind.fdatasync

        def stubborn(self: Any, real: Callable[[Any], None] = real) -> None:
            with contextlib.suppress(OSError):
                real(self)
                return
            real(self)

        patch(kind, "fdatasync", stubborn)


def snapshot_too_early(patch: Patch) -> None:
    """Say that a snapshot holds less than it does."""
    _shift_snapshots(patch, -1)


def snapshot_too_late(patch: Patch) -> None:
    """Say that a snapshot holds more than it does."""
    _shift_snapshots(patch, 1)


def _shift_snapshots(patch: Patch, by: int) -> None:
    real = snapshots.Snapshots.write

    def write(self: snapshots.Snapshots, lsn: int, records: Iterable[bytes]) -> object:
        return real(self, lsn + by, records)

    patch(snapshots.Snapshots, "write", write)


def run(name: str) -> None:
    """Break this process, then run the command with the arguments it was given."""
    from millstream.cli.main import main

    globals()[name](setattr)
    main()
