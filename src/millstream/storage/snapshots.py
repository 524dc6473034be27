"""Snapshots on disk: written beside, read back, then named; the newest two are kept.

A snapshot has its final name only when every byte of it has been synced and read back whole, so
one that does not read is damage, not an interrupted write.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from millstream.format.checksum import crc32c
from millstream.format.defects import Corrupt, CutShort, describe
from millstream.format.snapshot import (
    CHUNK_HEADER_BYTES,
    CHUNK_TARGET_BYTES,
    SNAPSHOT_HEADER_BYTES,
    Chunk,
    EndChunk,
    SnapshotHeader,
    chunk_length,
    decode_chunk,
    decode_snapshot_header,
    encode_snapshot,
    snapshot_lsn,
    snapshot_name,
)
from millstream.format.versions import UnknownVersion
from millstream.storage.damage import DataDamaged, UnknownFormat
from millstream.storage.ports import Files, Handle

TEMPORARY_NAME: Final = "snapshot.tmp"
SNAPSHOTS_KEPT: Final = 2


class SnapshotFile(msgspec.Struct, frozen=True):
    """A file that bears a snapshot's name; whether it is whole is another question."""

    lsn: int
    path: str


class Snapshot(msgspec.Struct, frozen=True):
    """A snapshot that was read from end to end and is whole."""

    lsn: int
    path: str
    record_count: int
    size: int
    files: Files

    def records(self) -> Iterator[bytes]:
        """Yield the records, one chunk in memory at a time.

        Raises DataDamaged when the file changed since it was checked.
        """
        handle = self.files.open(self.path)
        try:
            for chunk in _chunks(handle, self.path):
                if isinstance(chunk, Chunk):
                    yield from chunk.records
        finally:
            handle.close()


class Snapshots:
    """The snapshots of one data directory.

    ``passed_over`` holds, after ``open_newest``, what is wrong with each newer one that was not
    taken: to be reported.
    """

    def __init__(
        self,
        files: Files,
        directory: str,
        directory_id: bytes,
        *,
        chunk_bytes: int = CHUNK_TARGET_BYTES,
    ) -> None:
        """Work in ``directory``, which need not exist yet, for the log with ``directory_id``."""
        self._files = files
        self._directory = directory
        self._directory_id = directory_id
        self._chunk_bytes = chunk_bytes
        self.passed_over: tuple[DataDamaged, ...] = ()

    @property
    def newest_lsn(self) -> int:
        """The highest LSN that any snapshot's name claims, good or bad: the log must reach it."""
        found = list_snapshots(self._files, self._directory)
        return found[0].lsn if found else 0

    def open_newest(self) -> Snapshot | None:
        """Return the newest snapshot that is whole, each tried from end to end, or None.

        Raises UnknownFormat when a newer build wrote one before a whole one was found: its state
        must not be passed over. Whether falling back is right, ``Recovery.frames`` decides by
        the log.
        """
        passed: list[DataDamaged] = []
        newest: Snapshot | None = None
        for file in list_snapshots(self._files, self._directory):
            try:
                newest = check_snapshot(self._files, file, self._directory_id)
                break
            except DataDamaged as damage:
                passed.append(damage)
        self.passed_over = tuple(passed)
        return newest

    def write(self, lsn: int, records: Iterable[bytes]) -> Snapshot:
        """Write the state at ``lsn`` and return it verified; durable under its name on return.

        After an error (OSError, or DataDamaged when what was written does not read back) there is
        no new snapshot, or a whole one whose name may not last. One chunk is held
        in memory. Writing the same LSN again replaces it.
        """
        files, directory = self._files, self._directory
        header = SnapshotHeader(self._directory_id, lsn)
        files.mkdir(directory)
        temporary = f"{directory}/{TEMPORARY_NAME}"
        with contextlib.suppress(FileNotFoundError):
            files.unlink(temporary)
        handle = files.create(temporary)
        try:
            position = 0
            for piece in encode_snapshot(header, records, chunk_bytes=self._chunk_bytes):
                handle.pwritev([piece], position)
                position += len(piece)
            handle.fdatasync()
            whole = _check(files, handle, temporary, header)
            path = f"{directory}/{snapshot_name(lsn)}"
            files.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                files.unlink(temporary)
            raise
        finally:
            handle.close()
        files.sync_dir(directory)
        return msgspec.structs.replace(whole, path=path)

    def prune(self, keep: int = SNAPSHOTS_KEPT) -> list[SnapshotFile]:
        """Remove what is older than the newest ``keep`` and any interrupted one; return those.

        Snapshots in ``passed_over`` do not count as kept. Call it after one was written.
        """
        bad = {damage.file for damage in self.passed_over}
        found = list_snapshots(self._files, self._directory)
        kept = [file for file in found if file.path not in bad][:keep]
        removed = [file for file in found if len(kept) == keep and file.lsn < kept[-1].lsn]
        for file in removed:
            self._files.unlink(file.path)
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(f"{self._directory}/{TEMPORARY_NAME}")
        return removed


def list_snapshots(files: Files, directory: str) -> list[SnapshotFile]:
    """Return the files with a snapshot's name, newest first; none when there is no directory."""
    try:
        names = files.listdir(directory)
    except FileNotFoundError:
        return []
    found = [
        SnapshotFile(lsn, f"{directory}/{name}")
        for name in names
        if (lsn := snapshot_lsn(name)) is not None
    ]
    return sorted(found, key=lambda file: file.lsn, reverse=True)


def check_snapshot(files: Files, file: SnapshotFile, directory_id: bytes | None) -> Snapshot:
    """Read a snapshot from end to end and return it. Raises DataDamaged or UnknownFormat.

    Without ``directory_id`` it may belong to any data directory.
    """
    handle = files.open(file.path)
    try:
        header = _read_header(handle, file.path)
        if header.lsn != file.lsn:
            what = f"the file bears frame {file.lsn} but holds the state at {header.lsn}"
            raise DataDamaged(file.path, 0, what)
        if directory_id is not None and header.directory_id != directory_id:
            raise DataDamaged(file.path, 0, "the file belongs to another data directory")
        return _check(files, handle, file.path, header)
    finally:
        handle.close()


def _check(files: Files, handle: Handle, path: str, header: SnapshotHeader) -> Snapshot:
    if _read_header(handle, path) != header:
        raise DataDamaged(path, 0, "the snapshot's header is not the one that was written")
    count = 0
    for chunk in _chunks(handle, path):
        if isinstance(chunk, Chunk):
            count += len(chunk.records)
    return Snapshot(header.lsn, path, count, handle.size(), files)


def _read_header(handle: Handle, path: str) -> SnapshotHeader:
    header = decode_snapshot_header(handle.pread(SNAPSHOT_HEADER_BYTES, 0))
    match header:
        case SnapshotHeader():
            return header
        case UnknownVersion():
            raise UnknownFormat(path, 0, header.text())
        case _:
            raise DataDamaged(path, 0, describe(header))


def _chunks(handle: Handle, path: str) -> Iterator[Chunk | EndChunk]:
    """Yield all chunks, each verified; raise unless the end chunk closes the file rightly."""
    size = handle.size()
    position = SNAPSHOT_HEADER_BYTES
    crc = crc32c(handle.pread(SNAPSHOT_HEADER_BYTES, 0))
    index = records = 0
    while True:
        length = chunk_length(handle.pread(CHUNK_HEADER_BYTES, position))
        # The length is not trusted beyond the file's own: it is the size of the next read.
        if length is None or position + length > size:
            raise DataDamaged(path, position, "the snapshot ends before its end chunk")
        data = handle.pread(length, position)
        chunk = decode_chunk(data)
        if isinstance(chunk, CutShort | Corrupt):
            raise DataDamaged(path, position, describe(chunk))
        if chunk.index != index:
            raise DataDamaged(path, position, f"chunk {chunk.index} stands in place of {index}")
        if isinstance(chunk, EndChunk):
            expected = (records, position, crc, size)
            if (chunk.record_count, chunk.bytes_before, chunk.crc, position + length) != expected:
                raise DataDamaged(path, position, "the snapshot does not match its end chunk")
            yield chunk
            return
        yield chunk
        index, records = index + 1, records + len(chunk.records)
        crc, position = crc32c(data, crc), position + length
