"""The offline check of meaning: whether the frames of a whole log tell one story, and all of it.

``storage.verify`` proves that the bytes are the ones that were written. Here every frame is
replayed from the first on, each snapshot is compared with the state at its LSN and, continued,
with the state at the end, and what that state promises is checked against the bytes on disk.
"""

from __future__ import annotations

import contextlib
from array import array
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from millstream.core.machine import Bounds, Machine
from millstream.core.streams.state import Life
from millstream.engine import pages
from millstream.engine.extents import unpack_place
from millstream.engine.replay import LOG_FOLDER, SNAPSHOT_FOLDER, apply_frame
from millstream.engine.snapshotting import load
from millstream.engine.views import Views
from millstream.format.defects import describe
from millstream.format.frame import Frame, decode_frame, frame_seed
from millstream.format.logfile import log_name
from millstream.format.versions import UnknownVersion
from millstream.storage.damage import DataDamaged, UnknownFormat
from millstream.storage.files_os import OsFiles
from millstream.storage.log import LogOptions
from millstream.storage.recovery import Placed, Recovery, list_log_files
from millstream.storage.snapshots import SnapshotFile, check_snapshot, list_snapshots
from millstream.storage.verify import Finding, Severity, verify_structure

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from millstream.core.streams.state import Stream
    from millstream.engine.extents import Extent
    from millstream.engine.pages import Piece
    from millstream.engine.tails import Tail
    from millstream.storage.ports import Files, Handle

_MESSAGES_MAX = 1 << 40


class _State(NamedTuple):
    """A state on its way through the log, and the file it started from."""

    machine: Machine
    views: Views
    source: str


def audit_directory(
    directory: str | PathLike[str], files: Files | None = None
) -> Iterator[Finding]:
    """Yield everything wrong or noteworthy in a data directory; change nothing.

    What the bytes mean is looked at only when the bytes are whole. No finding of severity DAMAGE
    means that a server starts on it and serves every message it ever answered for. Raises OSError.
    """
    files = files or OsFiles()
    log, snapshots = f"{directory}/{LOG_FOLDER}", f"{directory}/{SNAPSHOT_FOLDER}"
    is_whole = True
    for finding in verify_structure(files, log, snapshots):
        is_whole = is_whole and finding.severity is not Severity.DAMAGE
        yield finding
    if not is_whole:
        return
    try:
        yield from _Audit(files, log, snapshots).findings()
    except (DataDamaged, UnknownFormat) as error:
        yield Finding(Severity.DAMAGE, error.file, error.position, error.what)


class _Audit:
    """One pass through one data directory."""

    def __init__(self, files: Files, log: str, snapshots: str) -> None:
        self._files = files
        self._log = log
        self._snapshots = snapshots
        self._handles: dict[int, Handle] = {}
        self._seed = 0

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong. Raises DataDamaged where the story cannot go on."""
        files = list_log_files(self._files, self._log)
        self._seed = frame_seed(files[0].header.directory_id) if files else 0
        recovery = Recovery(self._files, self._log, LogOptions(), files)
        waiting = sorted(list_snapshots(self._files, self._snapshots), key=lambda file: file.lsn)
        states: list[_State] = []
        first_lsn = files[0].header.first_lsn if files else 1
        if first_lsn <= 1:
            states.append(_State(Machine(Bounds()), Views(0), self._log))
        else:
            # The oldest frames are gone: the story starts with the first snapshot that needs none.
            waiting = [file for file in waiting if file.lsn + 1 >= first_lsn]
            if not waiting:
                what = f"the log starts at frame {first_lsn} and no snapshot covers what was before"
                yield Finding(Severity.DAMAGE, self._log, 0, what)
                return
        lsn = 0 if states else waiting[0].lsn
        yield from self._join(states, waiting, lsn)
        for placed in recovery.frames(after=lsn):
            for state in states:
                _apply(state, placed, self._log)
            yield from self._join(states, waiting, placed.frame.lsn)
        for state in states[1:]:
            yield from _differences(states[0], state, state.source, "at the end of the log")
        if states:
            yield from self._invariants(states[0])

    def _join(
        self, states: list[_State], waiting: list[SnapshotFile], lsn: int
    ) -> Iterator[Finding]:
        """Let the snapshot of this LSN, if there is one, go on beside the log's own state."""
        while waiting and waiting[0].lsn <= lsn:
            file = waiting.pop(0)
            try:
                records = check_snapshot(self._files, file, None).records()
                machine, views = load(records, Bounds(), 0)
            except (msgspec.DecodeError, ValueError, KeyError) as error:
                what = f"the snapshot does not add up: {error}"
                yield Finding(Severity.DAMAGE, file.path, 0, what)
                continue
            state = _State(machine, views, file.path)
            if states:
                yield from _differences(states[0], state, file.path, f"at frame {lsn}")
            states.append(state)

    def _invariants(self, state: _State) -> Iterator[Finding]:
        streams = state.machine.streams
        forks: dict[int, int] = {}
        for stream in streams.by_id.values():
            if stream.fork is not None:
                forks[stream.fork.source_id] = forks.get(stream.fork.source_id, 0) + 1
        try:
            for stream in streams.by_id.values():
                tail = state.views.by_id(stream.stream_id)
                if tail is None:
                    yield self._wrong(stream, "readers do not know it")
                    continue
                for what in _stream_faults(stream, tail, forks.get(stream.stream_id, 0)):
                    yield self._wrong(stream, what)
                if stream.fork is not None:
                    for what in _fork_faults(stream, state.views.by_id(stream.fork.source_id)):
                        yield self._wrong(stream, what)
                yield from self._messages(stream, tail)
        finally:
            for handle in self._handles.values():
                handle.close()
            self._handles.clear()
        if len(streams.by_id) != len(state.views):
            what = "readers know streams that are not there"
            yield Finding(Severity.DAMAGE, self._log, 0, what)

    def _messages(self, stream: Stream, tail: Tail) -> Iterator[Finding]:
        """Read every message of a stream the way a reader would, and look at its cut."""
        for number in range(len(tail.extents)):
            extent = tail.extents.row(number)
            found = pages.plan(tail, extent.first, 1, _MESSAGES_MAX)
            try:
                piece = pages.fetch(found, self._read).pieces[0]
            except (DataDamaged, UnknownFormat, LookupError) as error:
                yield self._wrong(stream, f"message {extent.first + 1}: {error}", extent)
                continue
            if not _is_cut_right(piece, is_json=tail.is_json):
                what = f"messages {extent.first + 1} to {extent.end} do not fill their frame"
                yield self._wrong(stream, what, extent)

    def _read(self, ordinal: int, position: int, length: int) -> bytes:
        path = f"{self._log}/{log_name(ordinal)}"
        if ordinal not in self._handles:
            with contextlib.suppress(FileNotFoundError):
                self._handles[ordinal] = self._files.open(path)
        handle = self._handles.get(ordinal)
        data = handle.pread(length, position) if handle is not None else b""
        frame = decode_frame(data, 0, self._seed)
        if isinstance(frame, Frame) and frame.length == length:
            return data
        if isinstance(frame, Frame):
            raise DataDamaged(path, position, "another frame stands here")
        what = frame.text() if isinstance(frame, UnknownVersion) else describe(frame)
        raise DataDamaged(path, position, what)

    def _wrong(self, stream: Stream, what: str, extent: Extent | None = None) -> Finding:
        file, position = self._log, 0
        if extent is not None:
            ordinal, position = unpack_place(extent.place)
            file = f"{self._log}/{log_name(ordinal)}"
        text = f"stream {stream.stream_id} ({stream.path!r}): {what}"
        return Finding(Severity.DAMAGE, file, position, text)


def _apply(state: _State, placed: Placed, log: str) -> None:
    try:
        apply_frame(state.machine, state.views, placed)
    except DataDamaged as error:
        path = f"{log}/{log_name(placed.ordinal)}"
        what = error.what if state.source == log else f"continuing {state.source}: {error.what}"
        raise DataDamaged(path, error.position, what) from error


def _differences(one: _State, other: _State, file: str, when: str) -> Iterator[Finding]:
    """Yield how the state that a snapshot gives differs from the one that the log gives."""
    mine, theirs = one.machine, other.machine
    counters = [(m.streams.next_id, m.subscriptions.next_no) for m in (mine, theirs)]
    if counters[0] != counters[1]:
        what = f"{when} the log has given the numbers {counters[0]}, the snapshot {counters[1]}"
        yield Finding(Severity.DAMAGE, file, 0, what)
    for stream_id in sorted(mine.streams.by_id.keys() | theirs.streams.by_id.keys()):
        facts = [_facts(state, stream_id) for state in (one, other)]
        if facts[0] != facts[1]:
            what = f"{when} stream {stream_id} is not the one that the log tells of"
            yield Finding(Severity.DAMAGE, file, 0, what)
    if set(mine.streams.by_path) != set(theirs.streams.by_path):
        yield Finding(Severity.DAMAGE, file, 0, f"{when} other paths are taken than the log says")
    for sub_no in sorted(mine.subscriptions.by_no.keys() | theirs.subscriptions.by_no.keys()):
        if mine.subscriptions.by_no.get(sub_no) != theirs.subscriptions.by_no.get(sub_no):
            what = f"{when} subscription {sub_no} is not the one that the log tells of"
            yield Finding(Severity.DAMAGE, file, 0, what)


def _facts(state: _State, stream_id: int) -> tuple[Stream, bytes] | None:
    stream, tail = state.machine.streams.by_id.get(stream_id), state.views.by_id(stream_id)
    if stream is None or tail is None:
        return None
    # Reads slide a deadline without an event; only the logged one is part of the story.
    return msgspec.structs.replace(stream, deadline_ms=0), tail.extents.packed()


def _stream_faults(stream: Stream, tail: Tail, forks: int) -> Iterator[str]:
    """Yield what a stream's state says that cannot be."""
    base, base_ms = (stream.fork.base_index, stream.fork.base_time_ms) if stream.fork else (0, 0)
    if tail.extents.base != base:
        yield f"its messages are counted from {tail.extents.base}, not from {base}"
    index, time_ms = base, base_ms
    for number in range(len(tail.extents)):
        extent = tail.extents.row(number)
        if extent.first != index or extent.end <= extent.first:
            yield f"messages {extent.first + 1} to {extent.end} do not follow message {index}"
        if extent.time_ms < time_ms:
            yield f"message {extent.end} is older than the one before it"
        index, time_ms = extent.end, extent.time_ms
    for who, found in (("writers", stream.tail), ("readers", tail.tail)):
        if (found.index, found.time_ms) != (index, time_ms):
            yield f"{who} take {found.text()} for its end, which is message {index} of {time_ms}"
    if (tail.is_closed, tail.life, tail.stored_bytes) != (
        stream.is_closed,
        stream.life,
        stream.stored_bytes,
    ):
        yield "readers and writers do not agree on whether it lives, is closed, or how large it is"
    if stream.forks != forks:
        yield f"it counts {stream.forks} forks, {forks} are there"
    if stream.life is not Life.LIVE and not stream.forks:
        yield "it is deleted and no fork reads it, yet it is kept"
    for producer_id, producer in (stream.producers or {}).items():
        if not base <= producer.end_index <= index:
            yield f"producer {producer_id!r} ended at message {producer.end_index} of {index}"


def _fork_faults(stream: Stream, source: Tail | None) -> Iterator[str]:
    fork = stream.fork
    assert fork is not None
    if source is None:
        yield f"its source, stream {fork.source_id}, is gone"
    elif fork.source_id >= stream.stream_id:
        yield f"its source, stream {fork.source_id}, is younger"
    elif fork.base_index > source.index:
        yield f"it leaves its source at message {fork.base_index}, behind its end"
    elif fork.base_time_ms != source.time_at(fork.base_index):
        yield f"it leaves its source at a time that message {fork.base_index} does not have"


def _is_cut_right(piece: Piece, *, is_json: bool) -> bool:
    """Tell whether the lengths of an append's messages add up to its bytes."""
    chunk, count = piece.chunk, piece.end - piece.first
    assert chunk is not None
    if isinstance(chunk, bytes):
        return count == 1
    data, packed = chunk
    lengths = array("I", packed)
    gaps = count - 1 if is_json else 0
    return len(lengths) == count and sum(lengths) + gaps == len(data)
