"""The disk calls of a real process, as the shim recorded them, made again on a disk in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from millstream.testing.files_memory import MemoryDisk
from millstream.testing.memory_nodes import Directory


class Call(NamedTuple):
    """One call that changed something; ``end`` is where its record ends in the file."""

    kind: str
    path: str
    other: str
    position: int
    data: bytes
    end: int


def read_calls(record: Path, under: Path) -> Iterator[Call]:
    """Yield the calls in order, with paths relative to ``under``."""
    raw = record.read_bytes()
    at = 0
    while at < len(raw):
        newline = raw.index(b"\n", at)
        kind, path, other, position, length = raw[at:newline].decode().split("\t")
        at = newline + 1 + int(length)
        yield Call(
            kind,
            _relative(path, under),
            _relative(other, under) if other else "",
            int(position),
            raw[newline + 1 : at],
            at,
        )


def _relative(path: str, under: Path) -> str:
    relative = Path(path).relative_to(under).as_posix()
    return "" if relative == "." else relative


def make(disk: MemoryDisk, call: Call) -> None:
    """Make one call on the disk in memory: exactly that, no sync that the process did not do."""
    files = disk.files
    path = call.path.removesuffix(" (deleted)")
    match call.kind:
        case "create":
            files.create(path)
        case "mkdir":
            parent, _, name = path.rpartition("/")
            directory = files._directory(parent)
            files._name("mkdir", path, directory, {name: Directory()})
        case "rename":
            files.rename(path, call.other)
        case "unlink":
            files.unlink(path)
        case "truncate":
            files.open(path, write=True).truncate(call.position)
        case "write":
            files.open(path, write=True).pwritev([call.data], call.position)
        case "sync":
            if isinstance(disk.node(path), Directory):
                files.sync_dir(path)
            else:
                files.open(path).fdatasync()
        case _:
            raise ValueError(call.kind)
