import os
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.storage.damage import DirectoryLocked
from millstream.storage.files_os import OsFiles
from millstream.storage.lock import lock_directory
from millstream.storage.ports import Files
from millstream.testing.files_memory import MemoryDisk


@pytest.fixture(params=["os", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Files, str]:
    if request.param == "os":
        return OsFiles(), str(tmp_path / "deep" / "data")
    return MemoryDisk().files, "deep/data"


def test_a_second_holder_is_told_who_the_first_is(place: tuple[Files, str]) -> None:
    files, directory = place
    lock = lock_directory(files, directory, 4711)
    with pytest.raises(DirectoryLocked, match="process 4711") as caught:
        lock_directory(files, directory, 4712)
    assert caught.value.directory == directory
    lock.release()


def test_a_released_directory_can_be_taken_again(place: tuple[Files, str]) -> None:
    files, directory = place
    lock_directory(files, directory, 1).release()
    lock_directory(files, directory, 2).release()


def test_a_holder_without_a_note_is_another_process(tmp_path: Path) -> None:
    files = OsFiles()
    held = files.lock(str(tmp_path / "LOCK"), b"")
    with pytest.raises(DirectoryLocked, match="another process"):
        lock_directory(files, str(tmp_path), 2)
    held.close()


def test_a_process_that_ends_leaves_no_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys; from millstream.storage.files_os import OsFiles;"
        "from millstream.storage.lock import lock_directory;"
        "l = lock_directory(OsFiles(), sys.argv[1], os.getpid()); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    lock_directory(OsFiles(), str(tmp_path), os.getpid()).release()
