"""Clients that write, read, fork and delete on a server until it dies, and remember everything."""

from __future__ import annotations

import asyncio
import random
from collections import deque

from tests.support.history import Prefix, Write
from tests.support.http11 import Answer, Connection, Gone
from tests.support.kill_books import (
    JSON,
    OCTETS,
    TEXT,
    Book,
    SseEvents,
    index_of,
    messages_of,
)

BATCHES_MAX = 400


def now() -> float:
    return asyncio.get_running_loop().time()


class Batch:
    """One append of a producer, however often it is sent."""

    def __init__(self, epoch: int, seq: int, body: bytes, write: Write, *, closing: bool) -> None:
        self.epoch = epoch
        self.seq = seq
        self.body = body
        self.write = write
        self.is_closing = closing
        self.attempts = 0
        self.offset: str | None = None


class Writer:
    """A producer of one stream; keeps several batches in flight on one connection."""

    def __init__(self, book: Book, name: str, rng: random.Random) -> None:
        self.book = book
        self.name = name
        self.rng = rng
        self.epoch = 0
        self.seq = 0
        self.backlog: list[Batch] = []
        self.old: list[Batch] = []
        self.answered = 0
        self.duplicates = 0

    async def run(self, port: int) -> None:
        """Write until the connection ends or the stream is closed."""
        try:
            connection = await Connection.open(port)
        except Gone:
            return
        try:
            await self._pump(connection)
        except Gone:
            pass
        finally:
            connection.close()

    async def _pump(self, connection: Connection) -> None:
        depth = self.rng.choice((1, 2, 4, 8))
        again = deque(self.backlog)
        again.extend(self.rng.sample(self.old, min(2, len(self.old))))
        in_flight: deque[Batch] = deque()
        while True:
            while len(in_flight) < depth:
                batch = again.popleft() if again else self._next()
                if batch is None:
                    break
                self._send(connection, batch)
                in_flight.append(batch)
            if not in_flight:
                return
            answer = await connection.answer()
            self._settle(in_flight.popleft(), answer)

    def take_over(self) -> None:
        """Start a new epoch; what was in flight is left to its fate."""
        self.backlog.clear()
        self.old.clear()
        self.epoch += 1
        self.seq = 0

    def _send(self, connection: Connection, batch: Batch) -> None:
        batch.attempts += 1
        headers = {
            "Content-Type": self.book.kind,
            "Producer-Id": self.name,
            "Producer-Epoch": str(batch.epoch),
            "Producer-Seq": str(batch.seq),
        }
        if batch.is_closing:
            headers["Stream-Closed"] = "true"
            if self.book.is_closed is False:
                self.book.is_closed = None
        connection.send("POST", self.book.target, headers, batch.body)

    def _next(self) -> Batch | None:
        book = self.book
        if book.is_closing or book.is_deleted is not False:
            return None
        book.batches += 1
        book.is_closing = is_closing = book.batches >= BATCHES_MAX
        count = self.rng.choice((1, 1, 3, 8)) if book.kind == JSON else 1
        messages = [self._message(number) for number in range(count)]
        body = b"[" + b",".join(messages) + b"]" if book.kind == JSON else messages[0]
        write = book.write(messages, now())
        batch = Batch(self.epoch, self.seq, body, write, closing=is_closing)
        self.seq += 1
        self.backlog.append(batch)
        return batch

    def _message(self, number: int) -> bytes:
        name = f"{self.book.path}:{self.name}:{self.epoch}:{self.seq}:{number}"
        size = self.rng.choice((0, 10, 80, 80, 600, 4000))
        text = f"{name}:{'y' * size}"
        return f'"{text}"'.encode() if self.book.kind == JSON else f"{text}\n".encode()

    def _settle(self, batch: Batch, answer: Answer) -> None:
        where = f"{self.book.path} {self.name}/{batch.epoch}/{batch.seq}"
        if answer.status == 503:
            # Stopping, or too much to do: asked again later.
            return
        if answer.status == 409 and answer.headers.get("stream-closed") == "true":
            assert self.book.is_closed is not False, f"{where}: nobody closed the stream"
            assert batch.offset is None, f"{where}: was answered for and is refused now"
            self._give_up(batch)
            return
        assert answer.status in (200, 204), f"{where}: {answer}"
        assert answer.status == 200 or batch.attempts > 1, f"{where}: a duplicate of nothing"
        offset = answer.headers["stream-next-offset"]
        if batch.offset is not None:
            assert answer.status == 204, f"{where}: was stored and is stored again"
            assert offset == batch.offset, f"{where}: {batch.offset} became {offset}"
            self.duplicates += 1
            return
        is_known = batch.write.messages[0] in self._verified()
        if batch.attempts > 1 and answer.status == 200:
            assert not is_known, f"{where}: landed before the restart and was stored again"
        if is_known:
            assert answer.status == 204, where
            self.duplicates += 1
        batch.offset = offset
        self.answered += 1
        batch.write.answer(self.book.note_offset(offset), now())
        if batch.is_closing:
            self.book.is_closed = True
        self.backlog.remove(batch)
        self.old = [*self.old[-20:], batch]

    def _verified(self) -> frozenset[bytes]:
        return frozenset(self.book.messages)

    def _give_up(self, batch: Batch) -> None:
        self.backlog.remove(batch)
        self.book.history.writes.remove(batch.write)


class Reader:
    """Follows one stream from its start, in one of the protocol's ways, across restarts."""

    def __init__(self, book: Book, way: str) -> None:
        self.book = book
        self.way = way
        self.offset = "-1"
        self.prefix = Prefix()
        self.seen = 0

    async def run(self, port: int) -> None:
        """Read until the connection ends, or the stream does."""
        try:
            connection = await Connection.open(port)
        except Gone:
            return
        try:
            if self.way == "sse":
                await self._sse(connection)
            else:
                await self._pages(connection)
        except Gone:
            pass
        finally:
            connection.close()

    async def _pages(self, connection: Connection) -> None:
        book = self.book
        while True:
            live = "&live=long-poll" if self.way == "long-poll" and self.offset != "-1" else ""
            called = now()
            answer = await connection.ask("GET", f"{book.target}?offset={self.offset}{live}")
            if answer.status in (404, 410):
                assert book.is_deleted is not False or book.is_created is not True, book.path
                return
            assert answer.status in (200, 204), f"{book.path}: {answer}"
            is_current = answer.headers.get("stream-up-to-date") == "true"
            data = answer.body if answer.status == 200 else b""
            self._take(data, answer.headers["stream-next-offset"], called if is_current else 0.0)
            if answer.headers.get("stream-closed") == "true":
                self._saw_end()
                return
            if self.way == "head":
                await self._heads(connection)
            elif not live:
                await asyncio.sleep(0.002)

    async def _heads(self, connection: Connection) -> None:
        called = now()
        answer = await connection.ask("HEAD", self.book.target)
        if answer.status == 200:
            tail = self.book.note_offset(answer.headers["stream-next-offset"])
            assert tail >= len(self.prefix), f"{self.book.path}: the tail went back to {tail}"
            looks = self.book.history.looks
            self.book.look(called, now(), self.prefix)
            looks[-1] = looks[-1]._replace(tail=tail, digest=b"")

    async def _sse(self, connection: Connection) -> None:
        book = self.book
        connection.send("GET", f"{book.target}?offset={self.offset}&live=sse")
        head = await connection.head()
        if head.status in (404, 410):
            assert book.is_deleted is not False or book.is_created is not True, book.path
            return
        assert head.status == 200, f"{book.path}: {head}"
        is_base64 = head.headers.get("stream-sse-data-encoding") == "base64"
        events = SseEvents(is_base64=is_base64)
        while chunk := await connection.chunk():
            for data, control in events.feed(chunk):
                # An event may have waited in a socket: how old it is, nobody knows.
                self._take(data, str(control["streamNextOffset"]), 0.0)
                if control.get("streamClosed"):
                    self._saw_end()
                    return

    def _take(self, data: bytes, offset: str, called: float) -> None:
        messages = messages_of(self.book.kind, data) if data else []
        self.prefix.add(messages)
        self.seen += len(messages)
        assert self.book.note_offset(offset) == len(self.prefix), (
            f"{self.book.path}: {self.way} at {offset} has {len(self.prefix)} messages"
        )
        self.offset = offset
        self.book.look(called, now(), self.prefix)

    def _saw_end(self) -> None:
        assert self.book.is_closed is not False, f"{self.book.path}: closed by nobody"
        self.book.is_closed = True


class Gardener:
    """Creates, forks, appends to and deletes streams, one after the other."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.books: list[Book] = []
        self._serial = 0

    async def run(self, port: int, sources: list[Book]) -> None:
        """Work until the connection ends."""
        try:
            connection = await Connection.open(port)
        except Gone:
            return
        try:
            while True:
                await asyncio.sleep(self.rng.uniform(0.005, 0.04))
                await self._act(connection, sources)
        except Gone:
            pass
        finally:
            connection.close()

    async def _act(self, connection: Connection, sources: list[Book]) -> None:
        alive = [b for b in self.books if b.is_deleted is False and b.is_created]
        choice = self.rng.random()
        if choice < 0.3 or not alive:
            await self._create(connection)
        elif choice < 0.5:
            await self._fork(connection, self.rng.choice([*sources, *alive]))
        elif choice < 0.8 and len(alive) < 12:
            await self._append(connection, self.rng.choice(alive))
        else:
            await self._delete(connection, self.rng.choice(alive))

    def _name(self) -> str:
        self._serial += 1
        return f"garden/{self._serial}"

    async def _create(self, connection: Connection) -> None:
        book = Book(self._name(), self.rng.choice((TEXT, OCTETS)))
        self.books.append(book)
        message = f"first of {book.path}\n".encode()
        write = book.write([message], now())
        answer = await connection.ask("PUT", book.target, {"Content-Type": book.kind}, message)
        if answer.status == 503:
            return
        assert answer.status == 201, answer
        book.is_created = True
        write.answer(book.note_offset(answer.headers["stream-next-offset"]), now())

    async def _fork(self, connection: Connection, source: Book) -> None:
        known = [at for at in source.offsets if at <= len(source.messages)]
        if not known or source.is_deleted is not False:
            return
        at = self.rng.choice(known)
        book = Book(self._name(), source.kind, tuple(source.messages[:at]))
        self.books.append(book)
        headers = {
            "Stream-Forked-From": source.target,
            "Stream-Fork-Offset": source.offsets[at],
        }
        answer = await connection.ask("PUT", book.target, headers)
        if answer.status == 503:
            return
        assert answer.status == 201, f"fork of {source.path} at {source.offsets[at]}: {answer}"
        assert index_of(answer.headers["stream-next-offset"]) == at
        book.is_created = True

    async def _append(self, connection: Connection, book: Book) -> None:
        self._serial += 1
        text = f"{book.path} more {self._serial}"
        message = f'"{text}"'.encode() if book.kind == JSON else f"{text}\n".encode()
        write = book.write([message], now())
        answer = await connection.ask("POST", book.target, {"Content-Type": book.kind}, message)
        if answer.status == 503:
            return
        assert answer.status == 204, answer
        write.answer(book.note_offset(answer.headers["stream-next-offset"]), now())

    async def _delete(self, connection: Connection, book: Book) -> None:
        book.is_deleted = None
        answer = await connection.ask("DELETE", book.target)
        if answer.status == 503:
            return
        assert answer.status == 204, answer
        book.is_deleted = True
