"""Files and directories of the memory disk: what is seen, what is stable, what is in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from millstream.testing.crash_plans import Fate, Pending


class Write(NamedTuple):
    """Bytes at a position of a file."""

    number: int
    position: int
    data: bytes


class Truncate(NamedTuple):
    """A file cut to a length."""

    number: int
    size: int


class Inode:
    """A file: what reads see, what is stable, and the changes in between."""

    def __init__(self) -> None:
        """Start empty."""
        self.volatile = bytearray()
        self.stable = bytearray()
        self.pending: list[Write | Truncate] = []

    def change(self, change: Write | Truncate) -> None:
        """Make a change that is seen and not stable yet."""
        _apply(self.volatile, change)
        self.pending.append(change)

    def sync(self) -> None:
        """Make all changes stable."""
        for change in self.pending:
            _apply(self.stable, change)
        self.pending.clear()


class Naming(NamedTuple):
    """Names given or (None) taken away, all at once."""

    number: int
    names: Mapping[str, Inode | Directory | None]


class Directory:
    """Names, as seen and as stable; a change of names may concern two names at once."""

    def __init__(self) -> None:
        """Start empty."""
        self.volatile: dict[str, Inode | Directory] = {}
        self.stable: dict[str, Inode | Directory] = {}
        self.pending: list[Naming] = []

    def change(self, change: Naming) -> None:
        """Make a change that is seen and not stable yet."""
        _set_names(self.volatile, change)
        self.pending.append(change)

    def sync(self) -> None:
        """Make all changes stable."""
        for change in self.pending:
            _set_names(self.stable, change)
        self.pending.clear()


def _apply(content: bytearray, change: Write | Truncate) -> None:
    if isinstance(change, Truncate):
        del content[change.size :]
        return
    if len(content) < change.position:
        content.extend(bytes(change.position - len(content)))
    content[change.position : change.position + len(change.data)] = change.data


def _set_names(names: dict[str, Inode | Directory], change: Naming) -> None:
    for name, node in change.names.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def crashed_directory(
    directory: Directory, plan: Mapping[int, Fate], memo: dict[int, Inode | Directory]
) -> Directory:
    """Return the directory and all below it after a power loss that follows ``plan``."""
    names = dict(directory.stable)
    for change in directory.pending:
        if plan[change.number].is_kept:
            _set_names(names, change)
    result = Directory()
    for name, node in names.items():
        made = memo.get(id(node))
        if made is None:
            if isinstance(node, Inode):
                made = _crashed_inode(node, plan)
            else:
                made = crashed_directory(node, plan, memo)
            memo[id(node)] = made
        result.volatile[name] = made
        result.stable[name] = made
    return result


def _crashed_inode(inode: Inode, plan: Mapping[int, Fate]) -> Inode:
    content = bytearray(inode.stable)
    for change in inode.pending:
        fate = plan[change.number]
        if isinstance(change, Truncate):
            if fate.is_kept:
                _apply(content, change)
            continue
        for start, stop in fate.ranges:
            piece = change.data[start:stop]
            _apply(content, Write(change.number, change.position + start, piece))
        if fate.is_grown:
            end = change.position + len(change.data)
            content.extend(bytes(max(0, end - len(content))))
    result = Inode()
    result.stable = content
    result.volatile = bytearray(content)
    return result


def listing(directory: Directory) -> tuple[tuple[str, object], ...]:
    """Return names and contents below a directory, as one comparable value."""
    return tuple(
        (name, bytes(node.volatile) if isinstance(node, Inode) else listing(node))
        for name, node in sorted(directory.volatile.items())
    )


def pending_changes(root: Directory) -> list[Pending]:
    """Return every change below ``root`` that is not stable yet, in the order they were made."""
    found: dict[int, Pending] = {}
    todo: list[Inode | Directory] = [root]
    visited: set[int] = set()
    while todo:
        node = todo.pop()
        if id(node) in visited:
            continue
        visited.add(id(node))
        if isinstance(node, Inode):
            for change in node.pending:
                length = len(change.data) if isinstance(change, Write) else 0
                found[change.number] = Pending(change.number, length, is_name=False)
            continue
        todo.extend((*node.volatile.values(), *node.stable.values()))
        for naming in node.pending:
            found[naming.number] = Pending(naming.number, 0, is_name=True)
            todo.extend(child for child in naming.names.values() if child is not None)
    return [found[number] for number in sorted(found)]
