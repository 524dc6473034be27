"""The log: the one place where a change becomes durable.

A batch of frames is one gathered write and one sync in one file. Files are written full of zeros
before use, so that a batch changes no metadata (unless files fill up within moments: then their
space is only reserved); the next one is made ready in the background.
The first error ends the log's life as a log: nothing is retried (see ``LogFailed``).
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from millstream.format.defects import describe
from millstream.format.frame import Frame, decode_frame, frame_seed, lsn_of
from millstream.format.logfile import (
    DIRECTORY_ID_BYTES,
    LOG_HEADER_BYTES,
    LogHeader,
    encode_log_header,
    log_name,
)
from millstream.format.versions import UnknownVersion
from millstream.storage.damage import DataDamaged, LogFailed, UnknownFormat
from millstream.storage.handles import HandleCache
from millstream.storage.ports import Buffer, Files, Handle

NEXT_NAME: Final = "next.tmp"


def _fresh_id() -> bytes:
    return secrets.token_bytes(DIRECTORY_ID_BYTES)


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of a log. ``fresh_id`` names the data directory if this start creates it."""

    file_bytes: int = 64 << 20
    open_files_max: int = 32
    fresh_id: bytes = msgspec.field(default_factory=_fresh_id)


class Place(NamedTuple):
    """Where a batch goes: its first byte in the file ``ordinal``."""

    ordinal: int
    position: int
    must_roll: bool


class Tail(msgspec.Struct, frozen=True):
    """Where a recovered log goes on: the open last file, its length and the next free byte."""

    directory_id: bytes
    ordinal: int
    position: int
    capacity: int
    bytes_total: int


class _Next(NamedTuple):
    handle: Handle
    size: int


class Log:
    """Appends batches to log files and reads single frames back.

    ``plan`` belongs to one thread (the event loop), ``write`` to one worker thread;
    ``prepare_next`` and ``read`` may run on any. Made by ``Recovery.finish``.
    """

    def __init__(
        self, files: Files, directory: str, options: LogOptions, tail: Tail, handle: Handle
    ) -> None:
        """Go on behind ``tail`` in the file that ``handle`` has open for writing."""
        self.directory_id = tail.directory_id
        self.seed = frame_seed(tail.directory_id)
        self._files = files
        self._directory = directory
        self._options = options
        self._handle = handle
        self._written = (tail.ordinal, tail.position)
        self._planned_ordinal = tail.ordinal
        self._planned_position = tail.position
        self._planned_capacity = tail.capacity
        self._failed: str | None = None
        self._next: _Next | None = None
        self._next_lock = threading.Lock()
        self._bytes_total = tail.bytes_total
        self._readers = HandleCache(self._open_for_reading, options.open_files_max)

    @property
    def failed(self) -> str | None:
        """The first cause why no more writes are taken, or None while they are."""
        return self._failed

    @property
    def bytes_total(self) -> int:
        """Disk space of all log files, the prepared one included."""
        return self._bytes_total

    @property
    def room(self) -> int:
        """Bytes that still fit into the current file, planned batches taken off."""
        return self._planned_capacity - self._planned_position

    @property
    def is_next_ready(self) -> bool:
        """True when the next roll finds its file prepared."""
        return self._next is not None

    def plan(self, size: int) -> Place:
        """Reserve ``size`` bytes for one batch and say where they lie. Does no I/O.

        Every planned place must be handed to ``write``, in the order of the plans.
        """
        position = self._planned_position
        must_roll = position + size > self._planned_capacity
        if must_roll:
            self._planned_ordinal += 1
            self._planned_capacity = self._capacity_for(size)
            position = LOG_HEADER_BYTES
        self._planned_position = position + size
        return Place(self._planned_ordinal, position, must_roll)

    def write(self, buffers: Sequence[Buffer], place: Place) -> None:
        """Make one batch of whole frames durable at its planned place.

        On return it is on stable storage. Raises LogFailed on any error, and from then on at
        every call: the batch may or may not be there after the next start, whole or not at all.
        """
        if self._failed is not None:
            raise LogFailed(self._failed)
        try:
            self._write(buffers, place)
        except Exception as error:
            self._failed = f"{type(error).__name__}: {error}"
            raise LogFailed(self._failed) from error

    def _write(self, buffers: Sequence[Buffer], place: Place) -> None:
        size = sum(map(len, buffers))
        ordinal, position = self._written
        expected = (ordinal + 1, LOG_HEADER_BYTES) if place.must_roll else (ordinal, position)
        if (place.ordinal, place.position) != expected:
            raise ValueError(f"a batch planned for {place} cannot go to {expected}")
        if place.must_roll:
            self._roll(place.ordinal, lsn_of(memoryview(buffers[0])), self._capacity_for(size))
        self._handle.pwritev(buffers, place.position)
        self._handle.fdatasync()
        self._written = (place.ordinal, place.position + size)

    def _capacity_for(self, size: int) -> int:
        return max(self._options.file_bytes, LOG_HEADER_BYTES + size)

    def _roll(self, ordinal: int, first_lsn: int, capacity: int) -> None:
        """Give the prepared file its header and its name; only then may frames go into it."""
        with self._next_lock:
            blank, self._next = self._next, None
            if blank is None:
                blank = self._create_blank(capacity, is_written=False)
            elif blank.size < capacity:
                blank.handle.allocate(capacity, is_written=False)
                blank.handle.fdatasync()
                self._bytes_total += capacity - blank.size
            # Until the file has its own name the temporary one is taken: whoever prepared the next
            # file now would remove this one, and the frames in it with it.
            header = LogHeader(self.directory_id, ordinal, first_lsn, max(blank.size, capacity))
            name_log_file(self._files, self._directory, blank.handle, header)
        self._handle.close()
        self._handle = blank.handle

    def prepare_next(self, *, is_rushed: bool = False) -> None:
        """Make the next file ready, so that rolling costs one small write and two syncs.

        Does nothing when one is ready. Raises OSError when the disk cannot hold it; this does
        not end the log, and a later call may succeed. ``is_rushed`` says that files fill up
        within moments: writing zeros first would then take half of the disk's bandwidth.
        """
        with self._next_lock:
            if self._next is None and self._failed is None:
                size = self._options.file_bytes
                self._next = self._create_blank(size, is_written=not is_rushed)

    def _create_blank(self, size: int, *, is_written: bool) -> _Next:
        handle = create_blank(self._files, self._directory, size, is_written=is_written)
        self._bytes_total += size
        return _Next(handle, size)

    def read(self, ordinal: int, position: int, length: int, lsn: int | None = None) -> bytes:
        """Return the bytes of one durable frame, its checksum (and LSN, if given) verified.

        Raises DataDamaged or UnknownFormat when the bytes there are not that frame, OSError when
        the disk does not give them. Works on a failed log too.
        """
        path = f"{self._directory}/{log_name(ordinal)}"
        try:
            with self._readers.use(ordinal) as handle:
                data = handle.pread(length, position)
        except FileNotFoundError:
            raise DataDamaged(path, 0, "the log file is missing") from None
        frame = decode_frame(data, 0, self.seed)
        if isinstance(frame, Frame):
            if frame.length == length and lsn in (None, frame.lsn):
                return data
            raise DataDamaged(path, position, "another frame stands here")
        if isinstance(frame, UnknownVersion):
            raise UnknownFormat(path, position, frame.text())
        raise DataDamaged(path, position, describe(frame))

    def _open_for_reading(self, ordinal: int) -> Handle:
        return self._files.open(f"{self._directory}/{log_name(ordinal)}")

    def close(self) -> None:
        """Close all files; durable already is what ever will be. Twice is harmless."""
        with self._next_lock:
            blank, self._next = self._next, None
            if blank is not None:
                blank.handle.close()
                self._bytes_total -= blank.size
                with contextlib.suppress(OSError):
                    self._files.unlink(f"{self._directory}/{NEXT_NAME}")
        self._failed = self._failed or "it is closed"
        self._handle.close()
        self._readers.close()


def create_blank(files: Files, directory: str, size: int, *, is_written: bool = True) -> Handle:
    """Make a file of ``size`` durable zeros under the temporary name and return it open.

    Raises OSError and leaves nothing behind when the disk cannot hold it.
    """
    path = f"{directory}/{NEXT_NAME}"
    with contextlib.suppress(FileNotFoundError):
        files.unlink(path)
    handle = files.create(path)
    try:
        handle.allocate(size, is_written=is_written)
        handle.fdatasync()
    except OSError:
        handle.close()
        with contextlib.suppress(OSError):
            files.unlink(path)
        raise
    return handle


def name_log_file(files: Files, directory: str, handle: Handle, header: LogHeader) -> None:
    """Turn the blank file into a log file: header, sync, final name, durable name."""
    handle.pwritev([encode_log_header(header)], 0)
    handle.fdatasync()
    files.rename(f"{directory}/{NEXT_NAME}", f"{directory}/{log_name(header.ordinal)}")
    files.sync_dir(directory)
