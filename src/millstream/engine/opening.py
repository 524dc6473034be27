"""Open and close a data directory."""

from __future__ import annotations

import asyncio
import logging
import os
from typing import NamedTuple

from millstream.core.machine import Bounds, Machine
from millstream.engine.clock import Clock, SteadyClock
from millstream.engine.disk import ThreadedDisk
from millstream.engine.engine import Engine, State
from millstream.engine.keeper import Keeper
from millstream.engine.replay import replay
from millstream.engine.snapshotter import snapshot_lock
from millstream.engine.snapshotting import dump
from millstream.engine.writer import Bounds as WriteBounds
from millstream.storage.damage import StorageError
from millstream.storage.files_os import OsFiles
from millstream.storage.lock import DirectoryLock, lock_directory
from millstream.storage.log import Log, LogOptions
from millstream.storage.ports import Files
from millstream.storage.snapshots import Snapshots

_log = logging.getLogger(__name__)


class EngineOptions(NamedTuple):
    """How large things may become."""

    streams_max: int = 1_000_000
    producers_max: int = 100_000
    inbox_commands_max: int = 100_000
    inbox_bytes_max: int = 256 << 20
    hot_bytes_max: int = 1 << 30
    log_bytes_max: int = 0
    log_file_bytes: int = 64 << 20
    snapshot_frames: int = 200_000
    snapshot_bytes: int = 256 << 20
    stop_ms: int = 10_000


class Opened(NamedTuple):
    """An open data directory; the engine takes commands until ``close``."""

    engine: Engine
    machine: Machine
    disk: ThreadedDisk
    keeper: Keeper
    log: Log
    snapshots: Snapshots
    lock: DirectoryLock
    stop_s: float
    files: Files
    directory: str

    async def close(self) -> None:
        """Finish all work, write a last snapshot, and let the directory go."""
        await self.engine.stop(self.stop_s)
        await self.keeper.stop()
        writer = self.engine.writer
        # After a failed write, or while one is under way, the state in memory is ahead of the
        # disk and must not be kept.
        lsn = writer.durable_lsn if writer.failure is None and writer.is_idle else 0
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._close_files, lsn)

    def _close_files(self, lsn: int) -> None:
        self.disk.stop()
        if lsn > self.snapshots.newest_lsn:
            try:
                with snapshot_lock(self.files, self.directory):
                    self.snapshots.write(lsn, dump(self.machine, self.engine.views))
                    self.snapshots.prune()
            except (OSError, StorageError) as error:
                _log.warning("no last snapshot, the next start replays the log: %s", error)
        self.log.close()
        self.lock.release()


async def open_directory(
    directory: str,
    options: EngineOptions,
    files: Files | None = None,
    clock: Clock | None = None,
) -> Opened:
    """Lock, recover and open ``directory``. Raises StorageError when it must not be opened."""
    files = files or OsFiles()
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, files.mkdir, directory)
    lock = await loop.run_in_executor(None, lock_directory, files, directory, os.getpid())
    try:
        return await _open(directory, options, files, clock or SteadyClock(), lock)
    except BaseException:
        lock.release()
        raise


async def _open(
    directory: str, options: EngineOptions, files: Files, clock: Clock, lock: DirectoryLock
) -> Opened:
    loop = asyncio.get_running_loop()
    bounds = Bounds(options.streams_max, options.producers_max)
    log_options = LogOptions(file_bytes=options.log_file_bytes)
    found = await loop.run_in_executor(
        None, replay, files, directory, log_options, bounds, options.hot_bytes_max
    )
    for damage in found.snapshots.passed_over:
        _log.error("passed over a damaged snapshot: %s", damage)
    log = await loop.run_in_executor(None, found.recovery.finish)
    recovered = found.recovery.recovered
    if recovered is not None and recovered.cut is not None:
        _log.warning(
            "cut a torn tail: %d bytes at %s, byte %d, that no answer rested on",
            recovered.cut.length,
            recovered.cut.file,
            recovered.cut.position,
        )
    _log.info("opened %s: %d streams, frame %d", directory, len(found.views), found.lsn)
    disk = ThreadedDisk(log, loop.call_soon_threadsafe)
    write_bounds = WriteBounds(
        options.inbox_commands_max,
        options.inbox_bytes_max,
        options.log_file_bytes // 2,
        options.log_bytes_max,
    )
    state = State(found.machine, found.views, found.lsn)
    engine = Engine(state, disk, log.read, clock, write_bounds)
    engine.writer.log_bytes = log.bytes_total - log.room
    keeper = Keeper(
        engine, directory, found.snapshot_lsn, options.snapshot_frames, options.snapshot_bytes
    )
    engine.on_batch = keeper.look
    disk.start()
    engine.start(loop)
    stop_s = options.stop_ms / 1000
    return Opened(
        engine, found.machine, disk, keeper, log, found.snapshots, lock, stop_s, files, directory
    )
