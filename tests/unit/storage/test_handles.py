import pytest

from millstream.storage.handles import HandleCache
from millstream.storage.ports import Handle
from millstream.testing.files_memory import MemoryDisk, MemoryHandle


class Opener:
    """Opens files of a memory disk and notes which are open."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.opened: list[int] = []
        self.closed: list[int] = []

    def __call__(self, key: int) -> Handle:
        if key < 0:
            raise FileNotFoundError
        self.opened.append(key)
        closed = self.closed
        if str(key) not in self.disk.files.listdir(""):
            self.disk.files.create(str(key))

        class Noted(MemoryHandle):
            def close(self) -> None:
                closed.append(key)

        return Noted(self.disk, str(key), write=False)


def test_a_file_is_opened_once() -> None:
    opener = Opener()
    cache = HandleCache(opener, 2)
    for _ in range(3):
        with cache.use(1):
            pass
    assert opener.opened == [1]


def test_the_file_unused_longest_is_closed() -> None:
    opener = Opener()
    cache = HandleCache(opener, 2)
    for key in (1, 2, 1, 3):
        with cache.use(key):
            pass
    assert opener.closed == [2]


def test_a_file_in_use_is_never_closed() -> None:
    opener = Opener()
    cache = HandleCache(opener, 1)
    with cache.use(1), cache.use(2), cache.use(3):
        cache.close()
        assert opener.closed == []
    assert sorted(opener.closed) == [2, 3] or len(opener.closed) == 2
    cache.close()
    assert sorted(opener.closed) == [1, 2, 3]


def test_a_file_that_cannot_be_opened_leaves_nothing() -> None:
    cache = HandleCache(Opener(), 1)
    with pytest.raises(FileNotFoundError), cache.use(-1):
        pass
    with cache.use(1):
        pass
