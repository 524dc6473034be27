"""Small logs on a memory disk, for the tests of format, storage and the disk itself."""

from __future__ import annotations

from typing import NamedTuple

from millstream.format.frame import KIND_EVENTS, KIND_MARK, encode_frame, frame_seed
from millstream.storage.log import Log, LogOptions
from millstream.storage.ports import Files
from millstream.storage.recovery import Recovered, Recovery

DIRECTORY_ID = bytes(range(16))
SEED = frame_seed(DIRECTORY_ID)
LOG = "data/log"
SNAPSHOTS = "data/snapshots"


class Started(NamedTuple):
    """A log after a start, and what the start replayed: (lsn, data of the events)."""

    log: Log
    frames: list[tuple[int, tuple[bytes, ...]]]
    recovered: Recovered


def options(file_bytes: int = 4096) -> LogOptions:
    return LogOptions(file_bytes=file_bytes, fresh_id=DIRECTORY_ID)


def start(files: Files, *, file_bytes: int = 4096, after: int = 0, proven: int = 0) -> Started:
    """Open the log the way the engine does."""
    recovery = Recovery.open(files, LOG, options(file_bytes))
    frames = [
        (placed.frame.lsn, tuple(bytes(data) for _, data in placed.parts()))
        for placed in recovery.frames(after=after, proven=proven)
    ]
    log = recovery.finish()
    assert recovery.recovered is not None
    return Started(log, frames, recovery.recovered)


def frame(lsn: int, data: bytes, durable_lsn: int | None = None) -> bytes:
    """Return one frame with one event."""
    durable = lsn - 1 if durable_lsn is None else durable_lsn
    return b"".join(encode_frame(lsn, durable, KIND_EVENTS, [(b"meta", data)], SEED))


def mark(lsn: int) -> bytes:
    return b"".join(encode_frame(lsn, lsn - 1, KIND_MARK, [], SEED))


def append(log: Log, *frames: bytes) -> tuple[int, int]:
    """Write one batch and return (ordinal, position) of its first byte."""
    place = log.plan(sum(map(len, frames)))
    log.write(list(frames), place)
    return place.ordinal, place.position
