"""A server under load, killed at random and started again on the same data (D1, D3, D7, P1, P2)."""

from __future__ import annotations

import asyncio
import os
import random
import time
from pathlib import Path

from millstream.engine.audit import audit_directory
from millstream.storage.verify import Severity
from millstream.testing.process import ServerProcess
from tests.support.command import run
from tests.support.http11 import Connection
from tests.support.kill_books import JSON, OCTETS, TEXT, Book, verify_books
from tests.support.kill_load import Gardener, Reader, Writer
from tests.support.server import Servers

# Tiny files and frequent snapshots, so that kills fall into rolls and snapshots too.
FLAGS = ("--log-file-bytes", "65536", "--snapshot-frames", "400", "--hot-bytes-max", "30000")
KINDS = (JSON, JSON, TEXT, OCTETS)
WAYS = ("sse", "long-poll", "catch-up", "head")
OLD_BOOKS_MAX = 6


class Loop:
    """All clients of one server, over all its lives."""

    def __init__(self, server: ServerProcess, seed: int) -> None:
        self.server = server
        self.rng = random.Random(seed)
        self.books: list[Book] = []
        self.writers: list[Writer] = []
        self.readers: list[Reader] = []
        self.gardener = Gardener(random.Random(seed + 1))
        self._serial = 0
        self._ever: list[Writer] = []
        self._ever_read: list[Reader] = []

    async def cycle(self) -> None:
        """Put load on the server, end it, start it, and compare."""
        await self._renew()
        load = [writer.run(self.server.port) for writer in self.writers]
        load += [reader.run(self.server.port) for reader in self.readers]
        load.append(self.gardener.run(self.server.port, list(self.books)))
        async with asyncio.TaskGroup() as group:
            for each in load:
                group.create_task(each)
            await asyncio.sleep(self.rng.uniform(0.1, 0.7))
            await asyncio.to_thread(self._end)
        await asyncio.to_thread(self._start)
        await self.verify()

    def _end(self) -> None:
        if self.rng.random() < 0.1:
            assert self.server.stop() == 0
        else:
            self.server.kill()

    def _start(self) -> None:
        if self.rng.random() < 0.15:
            # A second kill while the first one is being recovered from.
            self.server.launch()
            time.sleep(self.rng.uniform(0.2, 0.6))
            self.server.kill()
        self.server.start()

    async def _renew(self) -> None:
        """Replace closed streams by new ones, forget the oldest, and open readers on all."""
        self.writers = [w for w in self.writers if w.book.is_closed is False or w.backlog]
        live = {writer.book for writer in self.writers}
        old = [book for book in self.books if book not in live]
        for book in old[:-OLD_BOOKS_MAX]:
            self.books.remove(book)
        self.readers = [r for r in self.readers if r.book in self.books]
        gone = [book for book in self.gardener.books if book.is_deleted]
        for book in gone[:-20]:
            self.gardener.books.remove(book)
        for writer in self.writers:
            if self.rng.random() < 0.1 and writer.book.is_closed is False:
                writer.take_over()
        connection = await Connection.open(self.server.port)
        while len({writer.book for writer in self.writers}) < len(KINDS):
            await self._add(connection)
        connection.close()

    async def _add(self, connection: Connection) -> None:
        kind = KINDS[self._serial % len(KINDS)]
        book = Book(f"load/{self._serial}", kind)
        answer = await connection.ask("PUT", book.target, {"Content-Type": kind})
        assert answer.status == 201, answer
        book.is_created = True
        self.books.append(book)
        for name in ("left", "right"):
            rng = random.Random(self.rng.random())
            self.writers.append(Writer(book, name, rng))
            self._ever.append(self.writers[-1])
        way = WAYS[self._serial % len(WAYS)]
        readers = [Reader(book, way), Reader(book, self.rng.choice(WAYS))]
        self.readers += readers
        self._ever_read += readers
        self._serial += 1

    async def verify(self) -> None:
        """Compare everything with everything."""
        connection = await Connection.open(self.server.port)
        await verify_books(connection, [*self.books, *self.gardener.books])
        connection.close()

    def count(self) -> str:
        """Say how much was done."""
        appends = sum(writer.answered for writer in self._ever)
        repeats = sum(writer.duplicates for writer in self._ever)
        seen = sum(reader.seen for reader in self._ever_read)
        return f"{appends} appends, {repeats} duplicates, {seen} messages read"


async def kill_and_compare(server: ServerProcess, seed: int, cycles: int) -> None:
    loop = Loop(server, seed)
    await asyncio.to_thread(server.start)
    for number in range(cycles):
        try:
            await loop.cycle()
        except BaseException as error:
            error.add_note(f"seed {seed}, cycle {number}; server log:\n{server.output()[-4000:]}")
            raise
        if number % 10 == 9:
            findings = list(audit_directory(server.data_dir))
            # The server is idle but alive: the newest frames may look unfinished, nothing more.
            assert [f for f in findings if f.severity is Severity.DAMAGE] == []
            print(f"cycle {number + 1}: {loop.count()}")


def test_killing_the_server_takes_back_nothing_and_repeats_nothing(
    servers: Servers, tmp_path: Path, crash_cycles: int
) -> None:
    seed = int(os.environ.get("CRASH_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"CRASH_SEED={seed}")
    server = servers.prepare(*FLAGS, data_dir=tmp_path / "data")
    asyncio.run(kill_and_compare(server, seed, crash_cycles))
    assert server.stop() == 0
    result = run("verify", str(server.data_dir))
    assert result.exit_code == 0, result.output
