import errno
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest

from millstream.storage.files_os import OsFiles
from millstream.storage.ports import Buffer


def test_a_file_reads_back_as_it_was_written(tmp_path: Path) -> None:
    files = OsFiles()
    handle = files.create(str(tmp_path / "a"))
    handle.pwritev([b"one", memoryview(b"two"), bytearray(b"three")], 5)
    handle.fdatasync()
    assert handle.pread(100, 5) == b"onetwothree"
    assert handle.pread(3, 8) == b"two"
    assert handle.size() == 16
    handle.truncate(8)
    assert handle.pread(100, 0) == bytes(5) + b"one"
    handle.close()
    handle.close()


def test_more_buffers_than_the_kernel_takes_are_split(tmp_path: Path) -> None:
    handle = OsFiles().create(str(tmp_path / "a"))
    buffers = [b"%05d" % number for number in range(3000)]
    handle.pwritev(buffers, 7)
    assert handle.pread(15000, 7) == b"".join(buffers)
    handle.close()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def short(fd: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwrite(fd, b"".join(buffers)[:4], position)

    monkeypatch.setattr(os, "pwritev", short)
    handle = OsFiles().create(str(tmp_path / "a"))
    handle.pwritev([b"abc", b"defgh", b"ij"], 1)
    assert handle.pread(20, 1) == b"abcdefghij"
    handle.close()


def test_a_short_write_that_meets_a_full_disk_raises(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(fd: int, data: Buffer, position: int) -> int:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwritev", lambda *_: 1)
    monkeypatch.setattr(os, "pwrite", full)
    handle = OsFiles().create(str(tmp_path / "a"))
    with pytest.raises(OSError, match="full"):
        handle.pwritev([b"abc"], 0)
    handle.close()


def test_a_disk_that_takes_nothing_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwritev", lambda *_: 0)
    monkeypatch.setattr(os, "pwrite", lambda *_: 0)
    handle = OsFiles().create(str(tmp_path / "a"))
    with pytest.raises(OSError, match="no more bytes"):
        handle.pwritev([b"abc"], 0)
    handle.close()


def test_a_short_read_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = OsFiles().create(str(tmp_path / "a"))
    handle.pwritev([b"abcdefghij"], 0)
    whole = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, n, at: whole(fd, min(n, 3), at))
    assert handle.pread(100, 2) == b"cdefghij"
    handle.close()


def test_allocated_space_is_written_not_a_hole(tmp_path: Path) -> None:
    path = tmp_path / "a"
    handle = OsFiles().create(str(path))
    handle.allocate((1 << 20) + 4096)
    handle.fdatasync()
    assert handle.size() == (1 << 20) + 4096
    assert path.stat().st_blocks * 512 >= 1 << 20
    assert not any(handle.pread(1 << 21, 0))
    handle.close()


def test_files_and_directories_are_their_owner_s_alone(tmp_path: Path) -> None:
    files = OsFiles()
    files.mkdir(str(tmp_path / "a" / "b"))
    files.mkdir(str(tmp_path / "a" / "b"))
    files.create(str(tmp_path / "a" / "b" / "c")).close()
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700
    assert stat.S_IMODE((tmp_path / "a" / "b" / "c").stat().st_mode) == 0o600


def test_names_change_and_go(tmp_path: Path) -> None:
    files = OsFiles()
    files.create(f"{tmp_path}/b").close()
    files.create(f"{tmp_path}/a").close()
    with pytest.raises(FileExistsError):
        files.create(f"{tmp_path}/a")
    files.rename(f"{tmp_path}/a", f"{tmp_path}/c")
    files.sync_dir(str(tmp_path))
    assert files.listdir(str(tmp_path)) == ["b", "c"]
    files.unlink(f"{tmp_path}/c")
    with pytest.raises(FileNotFoundError):
        files.open(f"{tmp_path}/c")
