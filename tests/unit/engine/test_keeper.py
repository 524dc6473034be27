"""The keeper: snapshots when enough log has piled up, one at a time, none left behind."""

import asyncio
from pathlib import Path

import pytest

from millstream.engine.opening import EngineOptions, Opened, open_directory
from tests.support.engines import SMALL
from tests.support.reading import append, create

pytestmark = pytest.mark.anyio

EVERY_5_FRAMES = SMALL._replace(snapshot_frames=5)


async def quiet(directory: Opened) -> tuple[int, int]:
    """Wait until the keeper has nothing under way; return how many it wrote and how many failed."""
    while directory.keeper._task is not None:
        await asyncio.wait([directory.keeper._task])
        await asyncio.sleep(0)
    return directory.keeper.written, directory.keeper.failed


async def started(directory: Opened) -> asyncio.subprocess.Process:
    """Wait until the snapshotter runs."""
    while True:
        process = directory.keeper._process
        if process is not None:
            return process
        await asyncio.sleep(0)


async def filled(path: Path, sizes: EngineOptions, frames: int) -> Opened:
    directory = await open_directory(str(path), sizes)
    await create(directory.engine, "a", *[b"x" * 100] * (frames - 1))
    return directory


async def test_nothing_happens_before_there_is_enough_log(tmp_path: Path) -> None:
    directory = await filled(tmp_path, EVERY_5_FRAMES, 3)
    assert directory.keeper._task is None
    await directory.close()


async def test_enough_frames_give_a_snapshot_that_the_next_start_uses(tmp_path: Path) -> None:
    directory = await filled(tmp_path, EVERY_5_FRAMES, 5)
    assert await quiet(directory) == (1, 0)
    assert directory.keeper.snapshot_lsn >= 5
    assert len(list((tmp_path / "snapshots").glob("*.snap"))) == 1
    await append(directory.engine, "a", b"x")
    assert await quiet(directory) == (1, 0)
    await directory.close()


async def test_enough_bytes_do_too(tmp_path: Path) -> None:
    directory = await filled(tmp_path, SMALL._replace(snapshot_bytes=500), 8)
    assert (await quiet(directory))[0] >= 1
    await directory.close()


async def test_a_failed_one_is_counted_and_not_tried_again_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", "/bin/false")
    directory = await filled(tmp_path, EVERY_5_FRAMES, 5)
    assert await quiet(directory) == (0, 1)
    await append(directory.engine, "a", b"x")
    assert directory.keeper._task is None
    await directory.close()


@pytest.mark.parametrize("program", ["/nowhere/python", "/dev/null"])
async def test_one_that_cannot_even_start_is_counted_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr("sys.executable", program)
    directory = await filled(tmp_path, EVERY_5_FRAMES, 5)
    assert await quiet(directory) == (0, 1)
    await directory.close()


async def test_one_that_is_killed_from_outside_is_counted_as_failed(tmp_path: Path) -> None:
    directory = await filled(tmp_path, EVERY_5_FRAMES, 5)
    (await started(directory)).kill()
    assert await quiet(directory) == (0, 1)
    await directory.close()


async def test_a_stop_ends_the_one_under_way_which_is_no_failure(tmp_path: Path) -> None:
    directory = await filled(tmp_path, EVERY_5_FRAMES, 5)
    await started(directory)
    await directory.close()
    assert (directory.keeper.written, directory.keeper.failed) == (0, 0)
    assert directory.keeper._task is None
