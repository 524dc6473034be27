"""The snapshotter: another process replays the log of a running server and writes its state."""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from millstream.core.machine import Bounds
from millstream.core.producers.judge import Claim
from millstream.core.streams.commands import Append
from millstream.engine.engine import Engine
from millstream.engine.opening import open_directory
from millstream.engine.replay import replay
from millstream.engine.snapshotter import snapshot_lock, write_snapshot
from millstream.storage.damage import DataDamaged, DirectoryLocked
from millstream.storage.files_os import OsFiles
from millstream.storage.log import LogOptions
from tests.support.engines import SMALL
from tests.support.machines import TEXT, body
from tests.support.reading import append, create, fork

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def _at(path: Path) -> AsyncIterator[Engine]:
    directory = await open_directory(str(path), SMALL)
    try:
        yield directory.engine
    finally:
        await directory.close()


def state_at(directory: Path) -> tuple[int, dict[str, int]]:
    """What a start would load from the newest snapshot: its LSN, and tails by path."""
    found = replay(OsFiles(), str(directory), LogOptions(), Bounds(), 0)
    return found.snapshot_lsn, {
        path: stream.tail_index for path, stream in found.machine.streams.by_path.items()
    }


async def test_a_process_writes_a_usable_snapshot_while_the_engine_runs(tmp_path: Path) -> None:
    path = str(tmp_path)
    directory = await open_directory(path, SMALL)
    try:
        engine = directory.engine
        await create(engine, "a")
        for seq in range(50):
            await engine.ask(Append("a", TEXT, body(b"x", b"y"), claim=Claim("p", 0, seq)))
        await fork(engine, "f", "a", 10)
        lsn = engine.writer.durable_lsn
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "millstream.engine.snapshotter", path, str(lsn)
        )
        while process.returncode is None:
            await append(engine, "f", b"meanwhile")
            await asyncio.wait([asyncio.ensure_future(process.wait())], timeout=0.01)
        assert process.returncode == 0
        assert state_at(tmp_path)[0] == lsn
        expected = directory.machine.streams.by_path["f"].tail_index
        assert state_at(tmp_path)[1] == {"a": 100, "f": expected}
    finally:
        await directory.close()


async def test_the_snapshot_holds_the_state_at_the_frame_that_was_asked_for(
    tmp_path: Path,
) -> None:
    async with _at(tmp_path) as engine:
        await create(engine, "a", b"1", b"2", b"3")
        assert write_snapshot(str(tmp_path), 3) == 3
        assert state_at(tmp_path) == (3, {"a": 3})
        assert write_snapshot(str(tmp_path), 3) == 3
        assert len(list((tmp_path / "snapshots").glob("*.snap"))) == 1


async def test_a_frame_that_is_not_there_is_an_error_and_leaves_no_snapshot(
    tmp_path: Path,
) -> None:
    async with _at(tmp_path) as engine:
        await create(engine, "a")
        with pytest.raises(DataDamaged):
            write_snapshot(str(tmp_path), 99)
        assert list((tmp_path / "snapshots").glob("*.snap")) == []


def test_two_cannot_write_snapshots_of_one_directory(tmp_path: Path) -> None:
    files = OsFiles()
    files.mkdir(str(tmp_path / "snapshots"))
    with snapshot_lock(files, str(tmp_path)), pytest.raises(DirectoryLocked):  # noqa: SIM117
        with snapshot_lock(files, str(tmp_path)):
            pass
    with snapshot_lock(files, str(tmp_path)):
        pass
