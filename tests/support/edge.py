"""A real listening edge in a thread of its own, with a toy handler, for raw-socket tests."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import uvloop

from millstream.server.edge import Edge
from millstream.server.http import Handler, Reply, Request, Response, Sink
from millstream.server.listener import Listener
from millstream.server.settings import Settings

PATIENCE_S = 20.0


class EdgeThread:
    """Runs an edge until the block ends."""

    def __init__(self, settings: Settings, handler: Handler) -> None:
        self._settings = settings
        self._handler = handler
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._ready = threading.Event()
        self.loop: asyncio.AbstractEventLoop
        self.edge: Edge
        self.listener: Listener

    def _run(self) -> None:
        uvloop.run(self._serve())

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.edge = Edge(self._settings, self._handler)
        self.listener = Listener(self.edge)
        await self.listener.start()
        self._done = asyncio.Event()
        self._ready.set()
        await self._done.wait()
        await self.listener.stop()

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        self.port = self.listener.port
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.begin_stop()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()

    def begin_stop(self) -> None:
        """Begin a graceful stop without waiting for it."""
        # A loop that is closed has stopped already, though its thread may not have ended yet.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._done.set)

    def call(self, function: Callable[[], Any]) -> Any:
        """Run a function on the server's loop and return its result."""

        async def run() -> Any:
            return function()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(PATIENCE_S)

    def connect(self) -> "RawClient":
        """Open a raw connection."""
        return RawClient(self.port)


class RawClient:
    """A socket that speaks bytes."""

    def __init__(self, port: int, receive_bytes: int | None = None) -> None:
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(PATIENCE_S)
        try:
            self.socket.connect(("127.0.0.1", port))
        except OSError:
            self.socket.close()
            raise
        self._pending = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send all of it."""
        self.socket.sendall(data)

    def until(self, mark: bytes) -> bytes:
        """Read up to and including `mark`; what follows stays for the next call."""
        while mark not in self._pending:
            data = self.socket.recv(65536)
            assert data, f"closed before {mark!r}: {self._pending!r}"
            self._pending += data
        index = self._pending.index(mark) + len(mark)
        found, self._pending = self._pending[:index], self._pending[index:]
        return found

    def rest(self) -> bytes:
        """Read to the end of the connection, however it ends."""
        parts = [self._pending]
        self._pending = b""
        try:
            while data := self.socket.recv(65536):
                parts.append(data)
        except ConnectionResetError:
            parts.append(b"<reset>")
        return b"".join(parts)

    def exactly(self, count: int) -> bytes:
        """Read that many bytes."""
        while len(self._pending) < count:
            data = self.socket.recv(65536)
            assert data, "closed too early"
            self._pending += data
        found, self._pending = self._pending[:count], self._pending[count:]
        return found

    def response(self) -> tuple[int, dict[bytes, bytes], bytes]:
        """Read one response with a content-length, or without a body."""
        head = self.until(b"\r\n\r\n")
        lines = head[:-4].split(b"\r\n")
        headers = dict(line.lower().split(b": ", 1) for line in lines[1:])
        body = self.exactly(int(headers.get(b"content-length", b"0")))
        return int(lines[0].split()[1]), headers, body


class Toy:
    """A handler with one path per behaviour that the edge must cope with."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.held: list[Reply] = []
        self.sinks: list[Sink] = []
        self.buffered_max = 0
        self.has_arrived = threading.Semaphore(0)
        self.has_left = threading.Semaphore(0)
        self.has_paused = threading.Semaphore(0)
        self.has_drained = threading.Semaphore(0)

    def __call__(self, request: Request, reply: Reply) -> None:
        self.requests.append(request)
        handler = getattr(self, "on_" + request.path.strip(b"/").decode(), self.on_echo)
        handler(request, reply)
        self.has_arrived.release()

    def on_echo(self, request: Request, reply: Reply) -> None:
        reply.send(Response(200, ((b"x-method", request.method.encode()),), request.body))

    def on_later(self, request: Request, reply: Reply) -> None:
        asyncio.get_running_loop().call_later(
            0.01, reply.send, Response(200, (), b"later " + request.query)
        )

    def on_hold(self, _request: Request, reply: Reply) -> None:
        self.held.append(reply)
        reply.on_disconnect(self.has_left.release)

    def on_boom(self, _request: Request, _reply: Reply) -> None:
        raise ZeroDivisionError("boom")

    def on_inj(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(200, ((b"x-a", b"b\r\nset-cookie: evil"),)))

    def on_lf(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(200, ((b"x-a", b"b\nset-cookie: evil"),)))

    def on_latin(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(200, ((b"x-a", b"caf\xe9"),)))

    def on_parts(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(200, (), [b"one,", b"two,", b"three"]))

    def on_big(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(200, (), bytes(32 * 1024 * 1024)))

    def on_nothing(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(204, (), b"must not be sent"))

    def on_length(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(200, ((b"content-length", b"1234"),)))

    def on_task(self, request: Request, reply: Reply) -> None:
        async def work() -> None:
            await asyncio.sleep(0)
            if request.query == b"raise":
                raise ZeroDivisionError("boom")
            if request.query == b"wait":
                try:
                    await asyncio.get_running_loop().create_future()
                finally:
                    self.has_left.release()
            if request.query != b"silent":
                reply.send(Response(200, (), b"task"))

        coro: Coroutine[object, object, None] = work()
        reply.spawn(coro)

    def on_stream(self, request: Request, reply: Reply) -> None:
        sink = reply.start(200, ((b"content-type", b"text/plain"),))
        sink.on_disconnect(self.has_left.release)
        for piece in (b"alpha", b"", b"beta" * 8000):
            sink.write(piece)
        if request.query == b"open":
            self.sinks.append(sink)
        else:
            sink.close()

    def on_flood(self, _request: Request, reply: Reply) -> None:
        """Write whenever the sink is not paused, for ever."""
        sink = reply.start(200, ())
        block = bytes(32 * 1024)
        sink.on_disconnect(self.has_left.release)

        def pour() -> None:
            for _ in range(10_000):
                if sink.is_paused:
                    break
                sink.write(block)
                self.buffered_max = max(self.buffered_max, sink.buffered)
            self.has_paused.release()

        def drained() -> None:
            self.has_drained.release()
            pour()

        sink.on_drain(drained)
        pour()
