"""Receivers of webhooks: one with scripted bytes, for unit tests; one that speaks HTTP."""

import asyncio
import json
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"
DONE = b'HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n{"done":true}'


class Scripted:
    """Answers each connection with the next of its answers; keeps what came."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)
        self.requests: list[bytes] = []
        self.port = 0
        self.ended = asyncio.Event()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}/hook?a=b"

    def body(self, number: int = -1) -> Any:
        """The JSON body of a request."""
        return json.loads(self.requests[number].partition(b"\r\n\r\n")[2])

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle one connection."""
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            self.requests.append(head + await reader.readexactly(length))
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if answer == b"hang":
                await reader.read()
            writer.write(answer)
            await writer.drain()
        except OSError:
            """The client has gone, as some tests want it to."""
        finally:
            writer.close()
            self.ended.set()


@asynccontextmanager
async def scripted(*answers: bytes) -> AsyncIterator[Scripted]:
    """Run a scripted receiver; the last answer is repeated."""
    receiver = Scripted(*answers)
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        if receiver.requests:
            await receiver.ended.wait()
        server.close()
        await server.wait_closed()


class Notification(NamedTuple):
    """One webhook request, as it came, and the status it was answered with."""

    body: bytes
    signature: str
    json: Any
    status: int


class Receiver:
    """A webhook receiver in threads; `status` and `answer` may be changed at any time."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/hook"
        self.status = 200
        self.answer: dict[str, Any] = {}
        self._arrived: queue.Queue[Notification] = queue.Queue()

    def take(self, body: bytes, signature: str, status: int) -> None:
        """Keep a request."""
        self._arrived.put(Notification(body, signature, json.loads(body), status))

    def next(self, timeout_s: float = 20) -> Notification:
        """Wait for the next request. Raises queue.Empty when none comes."""
        return self._arrived.get(timeout=timeout_s)


@contextmanager
def receiving() -> Iterator[Receiver]:
    """Run a receiver on a free port."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status, answer = receiver.status, json.dumps(receiver.answer).encode()
            receiver.take(body, self.headers["Webhook-Signature"], status)
            self.send_response(status)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver = Receiver(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
