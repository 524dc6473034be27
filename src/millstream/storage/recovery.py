"""Opening a log after any end of the process: replay what is whole, cut what never counted.

The rule (docs/format.md): in every file but the last, each frame must be there. In the last
file, what follows the first position without the next frame is a torn tail, and is cut, unless
something proves that the missing frame had been durable: then it is damage, and nothing is cut.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator

import msgspec

from millstream.format.defects import Corrupt, CutShort, Ended, describe
from millstream.format.frame import Frame, decode_frame, find_proof, frame_seed
from millstream.format.logfile import (
    LOG_HEADER_BYTES,
    LogHeader,
    decode_log_header,
    log_name,
    log_ordinal,
)
from millstream.format.versions import UnknownVersion
from millstream.storage.damage import DataDamaged, UnknownFormat
from millstream.storage.log import (
    NEXT_NAME,
    Log,
    LogOptions,
    Tail,
    create_blank,
    name_log_file,
)
from millstream.storage.ports import Files

_ZEROS = bytes(1 << 20)


class LogFile(msgspec.Struct, frozen=True):
    """A log file whose header holds."""

    path: str
    header: LogHeader
    size: int


class Placed(msgspec.Struct, frozen=True):
    """A frame at its place. ``data`` is a view of its bytes: copy what outlives the next one."""

    ordinal: int
    position: int
    frame: Frame
    data: memoryview

    def parts(self) -> Iterator[tuple[memoryview, memoryview]]:
        """Yield (encoded event, data) of each event, as views."""
        data = self.data
        for span in self.frame.spans:
            data_at = span.data_at
            yield data[span.meta_at : data_at], data[data_at : data_at + span.data_length]


class Cut(msgspec.Struct, frozen=True):
    """A torn tail: ``length`` bytes from ``position`` on that no answer ever rested on."""

    file: str
    position: int
    length: int


class Recovered(msgspec.Struct, frozen=True):
    """What a start found. ``lsn_proven`` is the highest LSN some frame proves durable."""

    directory_id: bytes
    lsn_last: int
    lsn_proven: int
    bytes_read: int
    cut: Cut | None


class FileScan:
    """Steps through the frames of one log file's bytes and remembers where and why it stopped."""

    def __init__(self, data: bytes, header: LogHeader, lsn_end: int | None = None) -> None:
        """Expect the header's first LSN first; stop before ``lsn_end``, or at what is no frame."""
        self.data = memoryview(data)
        self.position = LOG_HEADER_BYTES
        self.lsn_next = header.first_lsn
        self._seed = frame_seed(header.directory_id)
        self.lsn_end = lsn_end
        self.lsn_proven = 0
        self.stop: Ended | CutShort | Corrupt | UnknownVersion = Ended()
        self._starts: deque[tuple[int, int]] = deque()

    def __iter__(self) -> Iterator[tuple[int, Frame]]:
        """Yield (position, frame) in order."""
        data, starts = self.data, self._starts
        while self.lsn_next != self.lsn_end:
            frame = decode_frame(data, self.position, self._seed)
            if not isinstance(frame, Frame):
                self.stop = frame
                return
            if frame.lsn != self.lsn_next:
                self.stop = Corrupt(f"frame {frame.lsn} stands where frame {self.lsn_next} belongs")
                return
            position = self.position
            if frame.durable_lsn > self.lsn_proven or not starts:
                self.lsn_proven = frame.durable_lsn
                starts.append((frame.lsn, position))
                while len(starts) > 1 and starts[1][0] <= frame.durable_lsn + 1:
                    starts.popleft()
            self.position = position + frame.length
            self.lsn_next += 1
            yield position, frame

    @property
    def unproven_position(self) -> int:
        """A frame's start at or before the first frame that nothing in this file proves."""
        return self._starts[0][1] if self._starts else self.position

    def rest_length(self) -> int:
        """Count the bytes from where the scan stopped to the last one that is not zero."""
        return len(bytes(self.data[self.position :]).rstrip(b"\0"))

    def proof_position(self) -> int | None:
        """Say where a later frame proves that the one missing here was durable, if one does."""
        return find_proof(self.data, self.position, self.lsn_next, self._seed)


class Recovery:
    """One opening of a log: ``open``, exhaust ``frames``, then ``finish``.

    Nothing on the disk changes before ``finish``.
    """

    def __init__(
        self, files: Files, directory: str, options: LogOptions, found: list[LogFile]
    ) -> None:
        """Use ``open``."""
        self._files = files
        self._directory = directory
        self._options = options
        self._found = found
        self._last: FileScan | None = None
        self._bytes_read = 0
        self.recovered: Recovered | None = None

    @classmethod
    def open(cls, files: Files, directory: str, options: LogOptions) -> Recovery:
        """Read all headers of the log in ``directory``, which need not exist.

        Raises DataDamaged or UnknownFormat.
        """
        return cls(files, directory, options, list_log_files(files, directory))

    @property
    def directory_id(self) -> bytes:
        """The id that every file of this data directory carries."""
        return self._found[0].header.directory_id if self._found else self._options.fresh_id

    def frames(self, after: int = 0, proven: int = 0, up_to: int | None = None) -> Iterator[Placed]:
        """Yield every frame with an LSN above ``after``, in order, each verified.

        ``proven`` is an LSN known durable from elsewhere: the newest snapshot's, good or bad.
        With ``up_to`` the reading ends behind that LSN, which must be durable; a log in use may
        be read so, since what follows is not looked at, and cannot be finished. Holds one file in
        memory at a time. Raises DataDamaged or UnknownFormat.
        """
        proven = max(proven, after)
        self._require_start(after, proven)
        if up_to is not None and up_to <= after:
            return
        starts = [index for index, f in enumerate(self._found) if f.header.first_lsn <= after + 1]
        lsn_last = 0
        for index in range(starts[-1] if starts else 0, len(self._found)):
            file = self._found[index]
            is_last = index + 1 == len(self._found)
            end = None if is_last else self._found[index + 1].header.first_lsn
            if up_to is not None and (end is None or end > up_to):
                end = up_to + 1
            scan = FileScan(read_whole(self._files, file), file.header, end)
            self._bytes_read += file.size
            ordinal, view = file.header.ordinal, scan.data
            for position, frame in scan:
                if frame.lsn > after:
                    yield Placed(ordinal, position, frame, view[position : scan.position])
            _require_whole(file, scan, proven)
            if up_to is not None and scan.lsn_next > up_to:
                return
            lsn_last = scan.lsn_next - 1
            self._last = scan
        self._report(lsn_last)

    def _require_start(self, after: int, proven: int) -> None:
        if not self._found:
            if proven:
                raise DataDamaged(self._directory, 0, "there is a snapshot but no log file")
            return
        first = self._found[0]
        if first.header.first_lsn > after + 1:
            what = f"the log starts at frame {first.header.first_lsn}, but {after + 1} is needed"
            raise DataDamaged(first.path, 0, what)

    def _report(self, lsn_last: int) -> None:
        cut = None
        scan = self._last
        if scan is not None:
            length = scan.rest_length()
            cut = Cut(self._found[-1].path, scan.position, length) if length else None
        self.recovered = Recovered(
            directory_id=self.directory_id,
            lsn_last=lsn_last,
            lsn_proven=scan.lsn_proven if scan is not None else 0,
            bytes_read=self._bytes_read,
            cut=cut,
        )

    def finish(self) -> Log:
        """Cut the torn tail, make all that was replayed durable, and return the log.

        On return every frame that ``frames`` yielded is on stable storage. Raises OSError.
        """
        if self.recovered is None:
            raise RuntimeError("the frames must be read to their end first")
        self._files.mkdir(self._directory)
        with contextlib.suppress(FileNotFoundError):
            self._files.unlink(f"{self._directory}/{NEXT_NAME}")
        if self._last is None:
            return self._create_first()
        file, scan = self._found[-1], self._last
        self._last = None
        handle = self._files.open(file.path, write=True)
        # What is written again here may sit in the page cache only, and be marked clean there
        # although its sync failed in an earlier life: a bare sync would then prove nothing.
        start, end = scan.unproven_position, scan.position
        if start < end:
            handle.pwritev([scan.data[start:end]], start)
        length = self.recovered.cut.length if self.recovered.cut is not None else 0
        for at in range(end, end + length, len(_ZEROS)):
            step = min(len(_ZEROS), end + length - at)
            handle.pwritev([memoryview(_ZEROS)[:step]], at)
        handle.fdatasync()
        self._files.sync_dir(self._directory)
        total = sum(f.size for f in self._found)
        tail = Tail(self.directory_id, file.header.ordinal, end, file.size, total)
        return Log(self._files, self._directory, self._options, tail, handle)

    def _create_first(self) -> Log:
        size = self._options.file_bytes
        header = LogHeader(self.directory_id, 1, 1, size)
        handle = create_blank(self._files, self._directory, size)
        name_log_file(self._files, self._directory, handle, header)
        tail = Tail(self.directory_id, 1, LOG_HEADER_BYTES, size, size)
        return Log(self._files, self._directory, self._options, tail, handle)


def _require_whole(file: LogFile, scan: FileScan, proven: int) -> None:
    """Raise unless the scan may stop where it did."""
    if isinstance(scan.stop, UnknownVersion):
        raise UnknownFormat(file.path, scan.position, scan.stop.text())
    if scan.lsn_end is not None:
        if scan.lsn_next != scan.lsn_end:
            what = f"frame {scan.lsn_next} is missing: {describe(scan.stop)}"
            raise DataDamaged(file.path, scan.position, what)
        return
    if scan.lsn_next <= proven:
        what = f"frame {scan.lsn_next} is missing, but a snapshot reaches to frame {proven}"
        raise DataDamaged(file.path, scan.position, f"{what}: {describe(scan.stop)}")
    proof = scan.proof_position()
    if proof is not None:
        what = f"frame {scan.lsn_next} was durable (the frame at byte {proof} proves it)"
        raise DataDamaged(file.path, scan.position, f"{what}, but {describe(scan.stop)}")


def list_log_files(files: Files, directory: str) -> list[LogFile]:
    """Return all log files in order, headers checked and in line with each other.

    Raises DataDamaged or UnknownFormat.
    """
    found: list[LogFile] = []
    try:
        names = files.listdir(directory)
    except FileNotFoundError:
        return found
    for name in names:
        ordinal = log_ordinal(name)
        if ordinal is None:
            continue
        file = read_log_file(files, f"{directory}/{name}", ordinal)
        if found:
            _require_follows(found[-1], file)
        found.append(file)
    return found


def read_log_file(files: Files, path: str, ordinal: int) -> LogFile:
    """Return the log file at ``path`` with its header. Raises DataDamaged or UnknownFormat."""
    handle = files.open(path)
    try:
        data, size = handle.pread(LOG_HEADER_BYTES, 0), handle.size()
    finally:
        handle.close()
    header = decode_log_header(data)
    match header:
        case LogHeader():
            if header.ordinal != ordinal:
                what = f"the file bears ordinal {ordinal} but holds {header.ordinal}"
                raise DataDamaged(path, 0, what)
            if header.size != size:
                what = f"the file was made with {header.size} bytes and has {size}"
                raise DataDamaged(path, min(size, header.size), what)
            return LogFile(path, header, size)
        case UnknownVersion():
            raise UnknownFormat(path, 0, header.text())
        case _:
            raise DataDamaged(path, 0, describe(header))


def _require_follows(before: LogFile, file: LogFile) -> None:
    if file.header.directory_id != before.header.directory_id:
        raise DataDamaged(file.path, 0, "the file belongs to another data directory")
    if file.header.ordinal != before.header.ordinal + 1:
        missing = log_name(before.header.ordinal + 1)
        raise DataDamaged(file.path, 0, f"the log file before it is missing ({missing})")
    if file.header.first_lsn < before.header.first_lsn:
        raise DataDamaged(file.path, 0, "the file starts before the one that it follows")


def read_whole(files: Files, file: LogFile) -> bytes:
    """Return all bytes of a log file."""
    handle = files.open(file.path)
    try:
        return handle.pread(file.size, 0)
    finally:
        handle.close()
