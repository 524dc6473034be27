"""Every bit of a small data directory flipped in turn: always noticed, never served (D6, O3)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from millstream.core.machine import Bounds
from millstream.engine.audit import audit_directory
from millstream.engine.replay import replay
from millstream.format.frame import Frame, decode_frame, frame_seed
from millstream.format.logfile import LOG_HEADER_BYTES, LogHeader, decode_log_header
from millstream.server.keys import FILE_NAME, KeysError, load_keys
from millstream.storage.damage import DataDamaged, UnknownFormat
from millstream.storage.verify import Severity
from millstream.testing.files_memory import MemoryDisk
from millstream.testing.process import ServerDidNotStart
from tests.support.bench import DIRECTORY, Bench, options, read_all, recover, state_records
from tests.support.client import TEXT, Client
from tests.support.command import run
from tests.support.server import Servers

FILE_BYTES = 1024
STEPS = 4
ALL_BITS_FROM = 5000
BITS_SAMPLED = 700


class Directory(NamedTuple):
    """A small data directory and what it answers while it is whole."""

    disk: MemoryDisk
    records: tuple[bytes, ...]
    messages: dict[int, list[bytes]]
    lsn: int


async def _live(disk: MemoryDisk, *, is_stopped: bool) -> None:
    bench = Bench(disk, 8, file_bytes=FILE_BYTES)
    bench.sizes = (0, 9)
    await bench.live(STEPS)
    bench.snapshot()
    for _ in range(STEPS):
        await bench.step()
    await bench.burst(bench.append("events/a", "a"))
    if is_stopped:
        await bench.stop()
    else:
        await bench.mark()


def make(*, is_stopped: bool) -> Directory:
    """Return a directory that was stopped in order, or killed once it was idle."""
    disk = MemoryDisk()
    asyncio.run(_live(disk, is_stopped=is_stopped))
    disk = disk.kill()
    machine, views, lsn, log = recover(disk.kill().files, FILE_BYTES)
    return Directory(disk, state_records(machine, views), read_all(views, log), lsn)


def paths(disk: MemoryDisk) -> list[str]:
    return [
        f"{DIRECTORY}/{folder}/{name}"
        for folder in ("log", "snapshots")
        for name in disk.files.listdir(f"{DIRECTORY}/{folder}")
    ]


def bits(disk: MemoryDisk, wanted: int) -> Iterator[tuple[str, int, int]]:
    """Yield (file, byte, mask) of every bit, or of a sample in the short run."""
    every = [(path, at) for path in paths(disk) for at in range(len(disk.content(path)))]
    if wanted < ALL_BITS_FROM:
        rng = random.Random(wanted)
        used = [(path, at) for path, at in every if disk.content(path)[at]]
        for path, at in rng.sample(used, BITS_SAMPLED) + rng.sample(every, BITS_SAMPLED // 3):
            yield path, at, 1 << rng.randrange(8)
        return
    for path, at in every:
        for bit in range(8):
            yield path, at, 1 << bit


def unproven(disk: MemoryDisk) -> tuple[str, int]:
    """Return (file, first byte) of what nothing proves: the last mark, and padding."""
    path = max(path for path in paths(disk) if path.endswith(".log"))
    data = disk.content(path)
    header = decode_log_header(data)
    assert isinstance(header, LogHeader)
    seed = frame_seed(header.directory_id)
    at = LOG_HEADER_BYTES
    last = at
    while isinstance(frame := decode_frame(data, at, seed), Frame):
        last, at = at, at + frame.length
    return path, last


def check_refusal(error: DataDamaged | UnknownFormat) -> None:
    assert error.file, "the refusal names no file"
    assert "verify" in str(error) or isinstance(error, UnknownFormat), str(error)


def check(directory: Directory, flipped: MemoryDisk) -> bool:
    """Start on a flipped directory; return whether the flip was reported as damage."""
    findings = list(audit_directory(DIRECTORY, flipped.files))
    is_reported = any(finding.severity is Severity.DAMAGE for finding in findings)
    try:
        found = replay(flipped.files, DIRECTORY, options(FILE_BYTES), Bounds(), 0)
    except (DataDamaged, UnknownFormat) as error:
        check_refusal(error)
        assert is_reported, "refused, but verify finds nothing"
        return True
    # It starts: then nothing may be missing but a last mark, and nothing may read otherwise.
    assert bool(found.snapshots.passed_over) <= is_reported
    assert found.lsn in (directory.lsn, directory.lsn - 1)
    assert state_records(found.machine, found.views) == directory.records
    log = found.recovery.finish()
    try:
        assert read_all(found.views, log) == directory.messages
    except (DataDamaged, UnknownFormat):
        # A frame that the newest snapshot covers is not read at the start: its readers are refused.
        assert is_reported
    return is_reported


@pytest.mark.parametrize("is_stopped", [True, False], ids=["stopped", "killed"])
def test_no_flipped_bit_is_served_or_loses_a_message(is_stopped: bool, crash_states: int) -> None:
    directory = make(is_stopped=is_stopped)
    unproven_path, mark_at = unproven(directory.disk)
    count = silent = 0
    for path, at, mask in bits(directory.disk, crash_states):
        flipped = directory.disk.kill()
        flipped.flip(path, at, mask)
        try:
            is_reported = check(directory, flipped)
            if not is_reported:
                silent += 1
                is_padding = directory.disk.content(path)[at:].strip(b"\0") == b""
                is_mark = (path, at >= mark_at) == (unproven_path, True) and not is_stopped
                assert is_padding or is_mark, "verify did not report it"
        except Exception as error:
            error.add_note(f"{path}, byte {at}, mask {mask:#x}")
            raise
        count += 1
    print(f"{count} bits flipped, {silent} of them in padding or in the last mark")


def test_no_bit_that_flips_under_a_running_server_is_served(crash_states: int) -> None:
    directory = make(is_stopped=True)
    disk = directory.disk.kill()
    _, views, _, log = recover(disk.files, FILE_BYTES)
    served = refused = 0
    for path, at, mask in bits(disk, crash_states):
        if not path.endswith(".log"):
            continue
        disk.flip(path, at, mask)
        try:
            assert read_all(views, log) == directory.messages, f"{path}, byte {at}, {mask:#x}"
            served += 1
        except (DataDamaged, UnknownFormat):
            refused += 1
        disk.flip(path, at, mask)
    print(f"{served} flips harmless, {refused} refused")
    assert refused > served / 10


def test_a_damaged_directory_refuses_to_start_and_verify_says_where(
    servers: Servers, tmp_path: Path
) -> None:
    server = servers.start(data_dir=tmp_path / "data")
    client = Client(server.port)
    assert client.put("a", b"first", TEXT).status == 201
    assert client.post("a", b"second", TEXT).status == 204
    assert server.stop() == 0
    for snapshot in (server.data_dir / "snapshots").glob("*.snap"):
        snapshot.unlink()
    whole = run("verify", str(server.data_dir))
    assert whole.exit_code == 0, whole.output
    path = server.data_dir / "log" / "0000000000000001.log"
    raw = bytearray(path.read_bytes())
    raw[raw.index(b"first")] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ServerDidNotStart) as caught:
        server.start()
    place = f"{path}, byte {LOG_HEADER_BYTES}"
    assert place in str(caught.value)
    assert "millstream verify" in str(caught.value)
    damaged = run("verify", str(server.data_dir))
    assert damaged.exit_code != 0
    assert place in damaged.output
    assert path.read_bytes() == raw, "something was changed"


def test_no_flipped_bit_of_the_key_file_makes_other_keys(tmp_path: Path) -> None:
    load_keys(tmp_path)
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in range(8):
            raw = bytearray(whole)
            raw[at] ^= 1 << bit
            path.write_bytes(raw)
            with pytest.raises(KeysError) as caught:
                load_keys(tmp_path)
            assert str(path) in str(caught.value)
    damaged = run("verify", str(tmp_path))
    assert damaged.exit_code != 0
    assert str(path) in damaged.output
