"""From a data directory to a running state: newest good snapshot, then the log behind it."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from millstream.core.checks import InvariantBroken
from millstream.core.machine import Bounds, Machine
from millstream.engine.extents import pack_place
from millstream.engine.snapshotting import load
from millstream.engine.views import Views
from millstream.format.events import decode_event
from millstream.storage.damage import DataDamaged
from millstream.storage.recovery import Recovery
from millstream.storage.snapshots import Snapshots

if TYPE_CHECKING:
    from millstream.storage.log import LogOptions
    from millstream.storage.ports import Files
    from millstream.storage.recovery import Placed

_log = logging.getLogger(__name__)

LOG_FOLDER = "log"
SNAPSHOT_FOLDER = "snapshots"


class Replayed(NamedTuple):
    """The state of a data directory, and how it was come by."""

    machine: Machine
    views: Views
    recovery: Recovery
    snapshots: Snapshots
    snapshot_lsn: int
    lsn: int
    frames: int


def replay(
    files: Files,
    directory: str,
    options: LogOptions,
    bounds: Bounds,
    hot_bytes_max: int,
    up_to: int | None = None,
) -> Replayed:
    """Rebuild the state. Changes nothing on disk; raises when anything durable is not whole.

    With ``up_to`` the replay stops behind that LSN, and the log must not be finished.
    """
    recovery = Recovery.open(files, f"{directory}/{LOG_FOLDER}", options)
    snapshots = Snapshots(files, f"{directory}/{SNAPSHOT_FOLDER}", recovery.directory_id)
    found = snapshots.open_newest()
    if found is None:
        machine, views, snapshot_lsn = Machine(bounds), Views(hot_bytes_max), 0
    else:
        snapshot_lsn = found.lsn
        try:
            machine, views = load(found.records(), bounds, hot_bytes_max)
        except (msgspec.DecodeError, ValueError) as error:
            raise DataDamaged(found.path, 0, f"the snapshot does not add up: {error}") from error
    lsn, frames = snapshot_lsn, 0
    proven = snapshots.newest_lsn
    for placed in recovery.frames(after=snapshot_lsn, proven=proven, up_to=up_to):
        apply_frame(machine, views, placed)
        lsn = placed.frame.lsn
        frames += 1
    views.take_changed()
    return Replayed(machine, views, recovery, snapshots, snapshot_lsn, lsn, frames)


def apply_frame(machine: Machine, views: Views, placed: Placed) -> None:
    """Take over all events of one frame. Raises DataDamaged when they cannot follow."""
    place = pack_place(placed.ordinal, placed.position)
    try:
        for meta, data in placed.parts():
            event = decode_event(meta)
            machine.apply(event, len(data))
            views.apply(event, len(data), place, placed.frame.length)
    except (msgspec.DecodeError, InvariantBroken, KeyError) as error:
        raise DataDamaged(
            f"log file {placed.ordinal}",
            placed.position,
            f"frame {placed.frame.lsn} does not follow from the frames before it: {error!r}",
        ) from error
