"""RESP for Redis Streams: XADD to append, XREAD BLOCK to follow, XRANGE to catch up."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from typing import Final

from bench.load.dialect import BadReply, Deliveries, Feed, Reader, Request, Subscriber
from bench.load.payload import END, MARK, marks_in

PAGE: Final = 1000
FIELD: Final = b"m"
SETTLE_S: Final = 30.0


def command(*words: bytes) -> bytes:
    """Return a command in RESP."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def last_id(reply: bytes | bytearray, end: int, message_bytes: int) -> bytes:
    """Return the id of the last entry of a reply that ends at `end`; sizes are known."""
    behind = len(b"\r\n*2\r\n$1\r\nm\r\n$%d\r\n" % message_bytes) + message_bytes + 2
    stop = end - behind
    return bytes(reply[reply.rfind(b"\n", 0, stop) + 1 : stop])


class Replies:
    """Counts replies of one connection that are bulk strings: two lines each."""

    __slots__ = ("_is_line_start", "_lines")

    def __init__(self) -> None:
        """Start with a fresh connection."""
        self._lines = 0
        self._is_line_start = True

    def feed(self, data: bytes) -> int:
        """Take the next bytes; return how many replies they completed."""
        # An id holds a minus too, but never at the start of a line.
        if (self._is_line_start and data[:1] == b"-") or b"\n-" in data:
            raise BadReply(repr(data[:300]))
        self._is_line_start = data.endswith(b"\n")
        lines = self._lines + data.count(b"\n")
        self._lines = lines & 1
        return lines >> 1


class Redis:
    """A Redis server at an address."""

    greeting = b""
    greeted = b""

    def __init__(self, host: str, port: int) -> None:
        """Talk to `host`:`port`."""
        self.host = host
        self.port = port

    def create(self, stream: str) -> None:
        """Nothing to do: XADD makes the stream."""

    def drop(self, stream: str) -> None:
        """Remove the key and wait until its memory is free."""
        self.ask(command(b"DEL", stream.encode()))

    def append(self, stream: str, messages: Sequence[bytes]) -> Request:
        """One XADD for each message, pipelined."""
        key = stream.encode()
        data = b"".join(command(b"XADD", key, b"*", FIELD, message) for message in messages)
        return Request(data, len(messages), len(messages))

    def opening(self, stream: str, message: bytes, number: int) -> Sequence[Request]:
        """One XADD makes the stream and appends."""
        del number
        return (self.append(stream, (message,)),)

    def opening_whole(self, stream: str, message: bytes) -> Request:
        """The same XADD."""
        return self.append(stream, (message,))

    def appended(self) -> Feed:
        """Count ids."""
        return Replies().feed

    def answered(self) -> Feed:
        """Count ids."""
        return Replies().feed

    def subscriber(self, stream: str, number: int, deliver: Deliveries) -> Subscriber:
        """Follow with XREAD BLOCK, asked again from the last id after every reply."""
        del number
        return BlockedSubscriber(stream.encode(), deliver)

    def settle(self, stream: str, subscribers: int) -> None:
        """Wait until so many clients are blocked."""
        del stream
        deadline = time.monotonic() + SETTLE_S
        wanted = b"blocked_clients:%d\r\n" % subscribers
        while wanted not in self.ask(command(b"INFO", b"clients")):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{subscribers} clients were never blocked")

    def reader(self, stream: str, number: int, messages: int) -> Reader:
        """Read with XRANGE, a thousand entries at a time."""
        del number
        return RangeReader(stream.encode(), messages)

    def ask(self, data: bytes) -> bytes:
        """Send a command and return its reply, blocking."""
        with socket.create_connection((self.host, self.port), timeout=60) as connection:
            connection.sendall(data)
            reply = connection.recv(1 << 16)
            while not reply.endswith(b"\r\n"):
                reply += connection.recv(1 << 16)
        if reply.startswith(b"-"):
            raise BadReply(repr(reply[:300]))
        return reply


class BlockedSubscriber(Subscriber):
    """Follows one stream with one blocked XREAD after the other."""

    def __init__(self, key: bytes, deliver: Deliveries) -> None:
        """Follow `key` and report to `deliver`."""
        super().__init__(deliver)
        self._key = key
        self._count_at = len(b"*1\r\n*2\r\n$%d\r\n%s\r\n*" % (len(key), key))
        self._rest = b""

    def begin(self) -> None:
        """Wait for the first entry behind the present end."""
        self._wait(b"$")
        self.following.set_result(None)

    def _wait(self, last: bytes) -> None:
        self.transport.write(command(b"XREAD", b"BLOCK", b"0", b"STREAMS", self._key, last))

    def data_received(self, data: bytes) -> None:
        """Report a whole reply's marks, and ask for what comes behind it."""
        if self._rest:
            data = self._rest + data
        if data[:1] == b"-":
            raise BadReply(repr(data[:300]))
        marks = marks_in(data)
        if not data.endswith(END + b"\r\n") or len(marks) != self._count(data):
            self._rest = data
            return
        self._rest = b""
        # Every entry here has one size: that of the last one, which its own head tells.
        size_at = data.rfind(b"\n$") + 2
        size = int(data[size_at : data.index(b"\r", size_at)])
        self._wait(last_id(data, len(data), size))
        self.deliver(marks)

    def _count(self, data: bytes) -> int:
        end = data.find(b"\r\n", self._count_at)
        return int(data[self._count_at : end]) if end >= 0 else -1


class RangeReader(Reader):
    """Reads a stream from the start with XRANGE."""

    def __init__(self, key: bytes, messages: int) -> None:
        """Read `messages` entries of `key`."""
        super().__init__()
        self._key = key
        self._wanted = messages
        self._buffer = bytearray(4 << 20)
        self._fill = 0
        self._page = 0

    def begin(self) -> None:
        """Ask for the first page."""
        self._ask(b"-")

    def _ask(self, start: bytes) -> None:
        self._fill = 0
        self._page = min(PAGE, self._wanted - self.received)
        count = b"%d" % self._page
        self.transport.write(command(b"XRANGE", self._key, start, b"+", b"COUNT", count))

    def get_buffer(self, sizehint: int) -> memoryview:
        """Read behind what is there of this page."""
        del sizehint
        return memoryview(self._buffer)[self._fill :]

    def buffer_updated(self, nbytes: int) -> None:
        """Count entries; ask for the next page at the end of one."""
        found = self._buffer.count(MARK, self._fill, self._fill + nbytes)
        self._fill += nbytes
        self.received += found
        self._page -= found
        if self._page > 0 or self._buffer[self._fill - 4 : self._fill] != END + b"\r\n":
            return
        if self.received >= self._wanted:
            if not self.done.done():
                self.done.set_result(None)
            return
        size_at = self._buffer.rfind(b"\n$", 0, self._fill) + 2
        size = int(self._buffer[size_at : self._buffer.index(b"\r", size_at)])
        self._ask(b"(" + last_id(self._buffer, self._fill, size))
