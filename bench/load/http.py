"""HTTP/1.1 for Millstream and the Node server: the Durable Streams protocol in prebuilt bytes."""

from __future__ import annotations

import http.client
from collections.abc import Sequence
from typing import Final

from bench.load.dialect import BadReply, Deliveries, Feed, Reader, Request, Subscriber
from bench.load.payload import MARK, array, marks_in

PREFIX: Final = "/v1/stream/"
JSON: Final = {"Content-Type": "application/json"}
BUFFER_BYTES: Final = 1 << 18
CHUNKS_END: Final = b"0\r\n\r\n"


def field(head: bytes, name: bytes) -> bytes | None:
    """Return a header field of a response head; `name` is lower case."""
    lower = head.lower()
    at = lower.find(b"\r\n" + name + b":")
    if at < 0:
        return None
    start = at + len(name) + 3
    end = lower.find(b"\r\n", start)
    return head[start : end if end >= 0 else len(head)].strip()


def response_end(data: bytes) -> int:
    """Return where the first response in `data` ends, or -1 if it is not all there.

    Raises BadReply for a status that is not 2xx.
    """
    head_end = data.find(b"\r\n\r\n")
    if head_end < 0:
        return -1
    head, body = data[:head_end], head_end + 4
    status = head[9:12]
    if not status.startswith(b"2"):
        raise BadReply(repr(bytes(data[:300])))
    if status == b"204":
        return body
    length = field(head, b"content-length")
    if length is not None:
        end = body + int(length)
        return end if end <= len(data) else -1
    # An answer in chunks here is short and holds no chunk end inside its own text.
    end = data.find(CHUNKS_END, body)
    return end + len(CHUNKS_END) if end >= 0 else -1


class Responses:
    """Counts the complete responses of one connection."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        """Start with a fresh connection."""
        self._rest = b""

    def feed(self, data: bytes) -> int:
        """Take the next bytes; return how many responses they completed."""
        # The answer to an append, whole: the only case that has to be fast.
        if (
            not self._rest
            and data.startswith(b"HTTP/1.1 204")
            and data.find(b"\r\n\r\n") == (len(data) - 4)
        ):
            return 1
        data = self._rest + data
        count = 0
        while (end := response_end(data)) >= 0:
            count += 1
            data = data[end:]
        self._rest = data
        return count


class Http:
    """A Durable Streams server at an address."""

    greeting = b""
    greeted = b""

    def __init__(self, host: str, port: int) -> None:
        """Talk to `host`:`port`."""
        self.host = host
        self.port = port

    def create(self, stream: str) -> None:
        """PUT a JSON stream."""
        self._ask("PUT", stream)

    def drop(self, stream: str) -> None:
        """DELETE a stream."""
        self._ask("DELETE", stream)

    def append(self, stream: str, messages: Sequence[bytes]) -> Request:
        """One message goes as a JSON value, several as one JSON array."""
        body = messages[0] if len(messages) == 1 else array(messages)
        return Request(self._bytes("POST", stream, body), 1, len(messages))

    def opening(self, stream: str, message: bytes, number: int) -> Sequence[Request]:
        """PUT, then POST."""
        del number
        put = Request(self._bytes("PUT", stream, b""), 1, 0)
        return (put, self.append(stream, (message,)))

    def opening_whole(self, stream: str, message: bytes) -> Request:
        """PUT with the message as the body."""
        return Request(self._bytes("PUT", stream, message), 1, 1)

    def appended(self) -> Feed:
        """Count responses."""
        return Responses().feed

    def answered(self) -> Feed:
        """Count responses."""
        return Responses().feed

    def subscriber(self, stream: str, number: int, deliver: Deliveries) -> Subscriber:
        """Follow by SSE from the present end on."""
        del number
        return SseSubscriber(self.get(stream, "offset=now&live=sse"), deliver)

    def settle(self, stream: str, subscribers: int) -> None:
        """Nothing to wait for: the first control event has told each subscriber."""

    def reader(self, stream: str, number: int, messages: int) -> Reader:
        """Read page after page from the start."""
        del number
        return PageReader(self, stream, messages)

    def get(self, stream: str, query: str) -> bytes:
        """Return the bytes of a GET."""
        return (
            f"GET {PREFIX}{stream}?{query} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n\r\n"
        ).encode()

    def _bytes(self, method: str, stream: str, body: bytes) -> bytes:
        head = (
            f"{method} {PREFIX}{stream} HTTP/1.1\r\nHost: {self.host}:{self.port}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        return head.encode() + body

    def _ask(self, method: str, stream: str) -> None:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=60)
        try:
            connection.request(method, PREFIX + stream, headers=JSON)
            response = connection.getresponse()
            text = response.read()
            if response.status // 100 != 2:
                raise BadReply(f"{method} {stream}: {response.status} {text[:200]!r}")
        finally:
            connection.close()


class SseSubscriber(Subscriber):
    """Follows one stream; from its first control event on nothing can be missed."""

    def __init__(self, request: bytes, deliver: Deliveries) -> None:
        """Send `request` and report to `deliver`."""
        super().__init__(deliver)
        self._request = request
        self._head = b""

    def begin(self) -> None:
        """Ask for the stream."""
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        """Report the marks; before the first control event, wait for it."""
        if self.following.done():
            self.deliver(marks_in(data))
            return
        self._head += data
        if not self._head.startswith(b"HTTP/1.1 200"[: len(self._head)]):
            self.following.set_exception(BadReply(repr(self._head[:300])))
        elif b"event: control" in self._head:
            self.following.set_result(None)
            self._head = b""


class PageReader(Reader):
    """Reads a stream from the start: pages with a length, or one answer in chunks."""

    def __init__(self, dialect: Http, stream: str, messages: int) -> None:
        """Read `messages` messages of `stream`."""
        super().__init__()
        self._dialect = dialect
        self._stream = stream
        self._wanted = messages
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._head = b""
        self._left: int | None = None
        self._next = b""

    def begin(self) -> None:
        """Ask for the first page."""
        self._ask("-1")

    def get_buffer(self, sizehint: int) -> memoryview:
        """Read into the same memory again and again."""
        del sizehint
        return self._view

    def buffer_updated(self, nbytes: int) -> None:
        """Count messages; ask for the next page at the end of one."""
        self.received += self._buffer.count(MARK, 0, nbytes)
        if self._left is None:
            self._head += bytes(self._view[:nbytes])
            head_end = self._head.find(b"\r\n\r\n")
            if head_end < 0:
                return
            self._read_head(self._head[:head_end])
            nbytes = len(self._head) - head_end - 4
            self._head = b""
        if self._left is not None:
            self._left -= nbytes
        if self.received >= self._wanted:
            if not self.done.done():
                self.done.set_result(None)
        elif self._left == 0:
            self._ask(self._next.decode())

    def _read_head(self, head: bytes) -> None:
        if head[9:12] != b"200":
            raise BadReply(repr(head[:300]))
        length = field(head, b"content-length")
        # Without a length the answer is in chunks, and is the whole stream.
        self._left = int(length) if length is not None else 1 << 62
        self._next = field(head, b"stream-next-offset") or b""

    def _ask(self, offset: str) -> None:
        self._left = None
        self.transport.write(self._dialect.get(self._stream, f"offset={offset}"))
