"""What clients know of the streams of a server that is killed again and again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator

import msgspec

from tests.support.history import History, Look, Prefix, Write
from tests.support.http11 import Answer, Connection

ROOT = "/v1/stream/"
JSON = "application/json"
TEXT = "text/plain"
OCTETS = "application/octet-stream"
PAGE_COUNT = 500

_values = msgspec.json.Decoder(list[msgspec.Raw])


def messages_of(kind: str, body: bytes) -> list[bytes]:
    """Cut an answer into messages. Those of byte streams end with their only line end."""
    if kind == JSON:
        return [bytes(value) for value in _values.decode(body or b"[]")]
    return body.splitlines(keepends=True)


def index_of(offset: str) -> int:
    """Return the running index in an offset's text."""
    return int(offset.partition("_")[2])


class Book:
    """One stream. True, False, or None where nobody was told."""

    def __init__(self, path: str, kind: str, inherited: tuple[bytes, ...] = ()) -> None:
        self.path = path
        self.kind = kind
        self.inherited = inherited
        self.history = History()
        self.offsets: dict[int, str] = {}
        self.messages: list[bytes] = list(inherited)
        self.is_created: bool | None = None
        self.is_closed: bool | None = False
        self.is_deleted: bool | None = False
        self.is_closing = False
        self.batches = 0

    @property
    def target(self) -> str:
        """The request target."""
        return ROOT + self.path

    def write(self, messages: list[bytes], called: float) -> Write:
        """Note that an append is asked for."""
        write = Write(messages, called)
        self.history.writes.append(write)
        return write

    def note_offset(self, offset: str) -> int:
        """Note an offset that the server gave; an index has one offset for ever."""
        index = index_of(offset)
        known = self.offsets.setdefault(index, offset)
        assert known == offset, f"{self.path}: message {index} was at {known}, now at {offset}"
        return index

    def look(self, called: float, returned: float, prefix: Prefix) -> None:
        """Note what a reader has seen so far."""
        self.history.looks.append(Look(called, returned, len(prefix), prefix.digests[-1]))

    def check_presence(self, answer: Answer) -> bool:
        """Compare whether the stream is there with what clients were told; then it is known."""
        assert answer.status in (200, 404, 410), f"{self.path}: {answer}"
        is_there = answer.status == 200
        if is_there:
            assert self.is_deleted is not True, f"{self.path} was deleted and is back"
            self.is_created, self.is_deleted = True, False
            is_closed = answer.headers.get("stream-closed") == "true"
            assert self.is_closed in (None, is_closed), f"{self.path}: closed is {is_closed}"
            self.is_closed = is_closed
        elif self.is_created is True:
            assert self.is_deleted is not False, f"{self.path} was answered for and is lost"
            self.is_deleted = True
        else:
            self.is_created, self.is_deleted = False, True
        return is_there

    def check_messages(self, messages: list[bytes]) -> None:
        """Compare a stream's messages with everything that was ever asked and seen."""
        inherited = len(self.inherited)
        faults = self.history.faults(messages, inherited)
        if tuple(messages[:inherited]) != self.inherited:
            faults.append("the fork does not hold what its source held")
        if messages[: len(self.messages)] != self.messages:
            faults.append("what the last start gave is not there any more")
        assert not faults, f"{self.path}: {faults[:5]}"
        self.messages = messages
        self.history.forget_looks()


async def read_book(connection: Connection, book: Book) -> list[bytes]:
    """Return all messages of a stream by catch-up; its HEAD must name the same tail."""
    messages: list[bytes] = []
    offset = "-1"
    while True:
        target = f"{book.target}?offset={offset}&limit={PAGE_COUNT}"
        answer = await connection.ask("GET", target)
        assert answer.status == 200, f"{book.path}: {answer}"
        messages += messages_of(book.kind, answer.body)
        offset = answer.headers["stream-next-offset"]
        assert book.note_offset(offset) == len(messages), f"{book.path}: {offset}"
        if answer.headers.get("stream-up-to-date") == "true":
            return messages


async def verify_books(connection: Connection, books: list[Book]) -> None:
    """Compare every stream with what is known of it."""
    for book in books:
        head = await connection.ask("HEAD", book.target)
        if book.check_presence(head):
            messages = await read_book(connection, book)
            assert book.note_offset(head.headers["stream-next-offset"]) == len(messages)
            book.check_messages(messages)


class SseEvents:
    """Cuts a stream of chunks into (data, control) of Server-Sent Events."""

    def __init__(self, *, is_base64: bool) -> None:
        self._is_base64 = is_base64
        self._rest = b""
        self._data = b""

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, dict[str, object]]]:
        """Yield what is complete: the bytes since the last control event, and that event."""
        *events, self._rest = (self._rest + chunk).split(b"\n\n")
        for event in events:
            first, *lines = event.split(b"\n")
            payload = b"\n".join(_unprefixed(line) for line in lines)
            if first == b"event: data":
                self._data += base64.b64decode(payload) if self._is_base64 else payload
                continue
            assert first == b"event: control", event
            data, self._data = self._data, b""
            yield data, json.loads(payload)


def _unprefixed(line: bytes) -> bytes:
    assert line.startswith(b"data:"), line
    line = line.removeprefix(b"data:")
    return line[1:] if line.startswith(b" ") else line
