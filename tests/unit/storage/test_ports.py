"""Both disks keep the same promises: whatever is done to one gives the same on the other."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.storage.files_os import OsFiles
from millstream.storage.ports import Files
from millstream.testing.files_memory import MemoryDisk

Step = tuple[str, str, int, int]

steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["create", "write", "read", "allocate", "truncate", "rename", "unlink", "list", "size"]
        ),
        st.sampled_from(["a", "b"]),
        st.integers(0, 20),
        st.integers(0, 20),
    ),
    max_size=20,
)


def perform(files: Files, root: str, step: Step) -> object:
    """Carry out one step; answer what came back, or the kind of the error."""
    kind, name, one, two = step
    path = f"{root}/{name}"
    try:
        if kind == "create":
            files.create(path).close()
        elif kind == "rename":
            files.rename(path, f"{root}/{'a' if name == 'b' else 'b'}")
            files.sync_dir(root)
        elif kind == "unlink":
            files.unlink(path)
        elif kind == "list":
            return files.listdir(root)
        else:
            return perform_on_file(files, path, kind, one, two)
    except OSError as error:
        return error.errno
    return None


def perform_on_file(files: Files, path: str, kind: str, one: int, two: int) -> object:
    handle = files.open(path, write=True)
    try:
        if kind == "write":
            handle.pwritev([b"w" * one, memoryview(b"xyz")], two)
            handle.fdatasync()
        elif kind == "read":
            return handle.pread(one, two)
        elif kind == "allocate":
            handle.allocate(max(one, handle.size()))
        elif kind == "truncate":
            handle.truncate(min(one, handle.size()))
        return handle.size()
    finally:
        handle.close()


@given(steps)
def test_both_disks_answer_alike(
    tmp_path_factory: pytest.TempPathFactory, done: list[Step]
) -> None:
    real: Path = tmp_path_factory.mktemp("disk")
    memory = MemoryDisk()
    memory.files.mkdir("disk")
    for step in done:
        assert perform(OsFiles(), str(real), step) == perform(memory.files, "disk", step), step
