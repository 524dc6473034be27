from millstream.testing.crash_plans import Fate, Pending
from millstream.testing.memory_nodes import (
    Directory,
    Inode,
    Naming,
    Truncate,
    Write,
    crashed_directory,
    listing,
    pending_changes,
)


def tree() -> tuple[Directory, Inode]:
    """Hold one stable file with ``stable`` in it."""
    root, inode = Directory(), Inode()
    root.change(Naming(1, {"a": inode}))
    root.sync()
    inode.change(Write(2, 0, b"stable"))
    inode.sync()
    return root, inode


def content(directory: Directory) -> dict[str, object]:
    return dict(listing(directory))


def test_changes_are_seen_at_once_and_pending_until_synced() -> None:
    root, inode = tree()
    inode.change(Write(3, 6, b"!"))
    assert content(root) == {"a": b"stable!"}
    assert pending_changes(root) == [Pending(3, 1, is_name=False)]
    inode.sync()
    assert pending_changes(root) == []


def test_a_crash_keeps_what_the_plan_says() -> None:
    root, inode = tree()
    inode.change(Write(3, 6, b"grown"))
    inode.change(Truncate(4, 3))
    other = Inode()
    root.change(Naming(5, {"b": other}))
    kept, lost = Fate(is_kept=True, ranges=((0, 5),)), Fate.lost()
    plans = {
        "lost": ({3: lost, 4: lost, 5: lost}, {"a": b"stable"}),
        "kept": ({3: kept, 4: kept, 5: kept}, {"a": b"sta", "b": b""}),
        "torn": ({3: Fate.torn(2, 5), 4: lost, 5: lost}, {"a": b"stable\0\0own"}),
        "zero": ({3: Fate.zeroed(), 4: lost, 5: kept}, {"a": b"stable" + bytes(5), "b": b""}),
    }
    for plan, expected in plans.values():
        assert content(crashed_directory(root, plan, {})) == expected


def test_a_crashed_tree_shares_nothing_with_the_old_one() -> None:
    root, inode = tree()
    after = crashed_directory(root, {}, {})
    inode.change(Write(3, 0, b"XXXXXX"))
    inode.sync()
    assert content(after) == {"a": b"stable"}


def test_a_rename_is_one_change() -> None:
    root, inode = tree()
    root.change(Naming(3, {"a": None, "b": inode}))
    assert content(root) == {"b": b"stable"}
    assert content(crashed_directory(root, {3: Fate.lost()}, {})) == {"a": b"stable"}
