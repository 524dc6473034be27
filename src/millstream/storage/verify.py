"""The offline check: reads every byte of a data directory, changes nothing, stops at nothing.

Structure only: headers, checksums, order, proof of durability, snapshots. Whether the events make
sense is the state machine's question.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator

import msgspec

from millstream.format.defects import describe
from millstream.format.logfile import log_name, log_ordinal
from millstream.format.versions import UnknownVersion
from millstream.storage.damage import DataDamaged, UnknownFormat
from millstream.storage.ports import Files
from millstream.storage.recovery import FileScan, LogFile, read_log_file, read_whole
from millstream.storage.snapshots import check_snapshot, list_snapshots


class Severity(enum.Enum):
    """Damage keeps a server from starting or loses data; a note is worth knowing."""

    DAMAGE = "damage"
    NOTE = "note"


class Finding(msgspec.Struct, frozen=True):
    """One thing the check found, at a byte of a file."""

    severity: Severity
    file: str
    position: int
    what: str


def verify_structure(files: Files, log: str, snapshots: str) -> Iterator[Finding]:
    """Yield everything wrong or noteworthy in a log directory and a snapshot directory.

    No finding of severity DAMAGE means that a start would take this directory. A missing
    directory holds nothing. Raises OSError only.
    """
    directory_ids: set[bytes] = set()
    found: list[LogFile] = []
    yield from _headers(files, log, found)
    for before, file in itertools.pairwise(found):
        yield from _order(before, file)
    for index, file in enumerate(found):
        directory_ids.add(file.header.directory_id)
        following = found[index + 1] if index + 1 < len(found) else None
        yield from _frames(files, file, following, _lsn_named(files, snapshots))
    yield from _snapshots(files, snapshots, directory_ids, found)


def _headers(files: Files, directory: str, found: list[LogFile]) -> Iterator[Finding]:
    try:
        names = files.listdir(directory)
    except FileNotFoundError:
        names = []
    for name in names:
        path = f"{directory}/{name}"
        ordinal = log_ordinal(name)
        if ordinal is None:
            yield Finding(Severity.NOTE, path, 0, "the file is no log file and is ignored")
            continue
        try:
            found.append(read_log_file(files, path, ordinal))
        except (DataDamaged, UnknownFormat) as error:
            yield Finding(Severity.DAMAGE, path, error.position, error.what)


def _order(before: LogFile, file: LogFile) -> Iterator[Finding]:
    if file.header.directory_id != before.header.directory_id:
        what = "the file belongs to another data directory than the one before it"
        yield Finding(Severity.DAMAGE, file.path, 0, what)
    if file.header.ordinal != before.header.ordinal + 1:
        missing = log_name(before.header.ordinal + 1)
        yield Finding(Severity.DAMAGE, file.path, 0, f"no readable log file {missing} precedes it")
    if file.header.first_lsn < before.header.first_lsn:
        what = "the file starts before the one that it follows"
        yield Finding(Severity.DAMAGE, file.path, 0, what)


def _frames(
    files: Files, file: LogFile, following: LogFile | None, lsn_named: int
) -> Iterator[Finding]:
    is_followed = following is not None and following.header.ordinal == file.header.ordinal + 1
    lsn_end = following.header.first_lsn if following is not None and is_followed else None
    scan = FileScan(read_whole(files, file), file.header, lsn_end)
    frames = sum(1 for _ in scan)
    stopped = describe(scan.stop) if not isinstance(scan.stop, UnknownVersion) else None
    path, position, missing = file.path, scan.position, scan.lsn_next
    if stopped is None:
        assert isinstance(scan.stop, UnknownVersion)
        yield Finding(Severity.DAMAGE, path, position, scan.stop.text())
        return
    rest = scan.rest_length()
    if lsn_end is not None:
        if missing != lsn_end:
            what = f"frame {missing} is missing ({stopped}); the next file starts at {lsn_end}"
            yield Finding(Severity.DAMAGE, path, position, what)
        elif rest:
            what = f"{rest} bytes behind the last frame of a full file are not zero"
            yield Finding(Severity.NOTE, path, position, what)
        return
    proof = scan.proof_position()
    if proof is not None:
        what = f"frame {missing} was durable (the frame at byte {proof} proves it), but {stopped}"
        yield Finding(Severity.DAMAGE, path, position, what)
    elif missing <= lsn_named:
        what = f"frame {missing} is missing ({stopped}), but a snapshot reaches to {lsn_named}"
        yield Finding(Severity.DAMAGE, path, position, what)
    elif rest:
        what = f"a torn tail of {rest} bytes, never answered for; the next start cuts it"
        yield Finding(Severity.NOTE, path, position, what)
    if frames and scan.lsn_proven < missing - 1:
        what = f"frames {scan.lsn_proven + 1} to {missing - 1} are whole; no later frame proves it"
        yield Finding(Severity.NOTE, path, position, what)


def _lsn_named(files: Files, directory: str) -> int:
    return max((file.lsn for file in list_snapshots(files, directory)), default=0)


def _snapshots(
    files: Files, directory: str, directory_ids: set[bytes], found: list[LogFile]
) -> Iterator[Finding]:
    directory_id = next(iter(directory_ids)) if len(directory_ids) == 1 else None
    first_lsn = found[0].header.first_lsn if found else 1
    reached = 0
    for file in list_snapshots(files, directory):
        try:
            check_snapshot(files, file, directory_id)
        except (DataDamaged, UnknownFormat) as error:
            yield Finding(Severity.DAMAGE, file.path, error.position, error.what)
            continue
        reached = max(reached, file.lsn)
        if not found:
            what = "there is a snapshot but no log file"
            yield Finding(Severity.DAMAGE, file.path, 0, what)
        elif file.lsn + 1 < first_lsn:
            what = f"the log from frame {file.lsn + 1} on is gone; this snapshot cannot be used"
            yield Finding(Severity.NOTE, file.path, 0, what)
    if first_lsn > reached + 1:
        what = f"the log starts at frame {first_lsn}, and no whole snapshot covers what precedes"
        yield Finding(Severity.DAMAGE, found[0].path, 0, what)
