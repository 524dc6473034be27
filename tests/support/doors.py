"""The whole application over a data directory in memory, asked without a socket."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import msgspec

from millstream.engine.opening import Opened
from millstream.server.app import App
from millstream.server.context import Context
from millstream.server.http import Headers, Reply, Request, Response
from millstream.server.settings import Settings
from millstream.testing.files_memory import MemoryDisk
from tests.support.engines import StandingClock, opened

Pairs = dict[str, str]


class Tape:
    """A streamed body as it is written; `is_paused` plays a slow client."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.written: list[bytes] = []
        self.ended = asyncio.Event()
        self.is_paused = False
        self.buffered = 0
        self.drained: Callable[[], None] = lambda: None
        self.gone: Callable[[], None] = lambda: None

    @property
    def is_closed(self) -> bool:
        """Whether the body was ended."""
        return self.ended.is_set()

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.written.append(data)

    def close(self) -> None:
        self.ended.set()

    def on_drain(self, callback: Callable[[], None]) -> None:
        self.drained = callback

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self.gone = callback

    def resume(self) -> None:
        """Play a client that has caught up."""
        self.is_paused = False
        self.drained()


class Recorder:
    """A reply that remembers; `answered` is set with the first answer."""

    is_disconnected = False

    def __init__(self) -> None:
        self.response: Response | None = None
        self.tape = Tape()
        self.answered = asyncio.Event()
        self.gone: Callable[[], None] = lambda: None
        self.tasks: list[asyncio.Task[None]] = []

    def send(self, response: Response) -> None:
        assert self.response is None, "answered twice"
        self.response = response
        self.answered.set()

    def start(self, status: int, headers: Headers) -> Tape:
        self.tape.status = status
        self.tape.headers = {name.decode(): value.decode() for name, value in headers}
        self.answered.set()
        return self.tape

    def spawn(self, coro: Coroutine[object, object, None]) -> None:
        async def run() -> None:
            await coro

        self.tasks.append(asyncio.get_running_loop().create_task(run()))

    def on_disconnect(self, callback: Callable[[], None]) -> None:
        self.gone = callback


class Heard:
    """An answer with easy access."""

    def __init__(self, response: Response) -> None:
        body = response.body
        self.status = response.status
        self.headers = {name.decode(): value.decode() for name, value in response.headers}
        self.body = body if isinstance(body, bytes) else b"".join(body)

    @property
    def json(self) -> Any:
        """The body as JSON."""
        return msgspec.json.decode(self.body)


class Door:
    """One application and its directory."""

    def __init__(self, directory: Opened, clock: StandingClock, settings: Settings) -> None:
        self.directory = directory
        self.clock = clock
        self.context = Context(directory.engine, settings, set())
        self.asked: list[str] = []
        self.app = App(self.context, self._control, {("GET", b"/healthz"): self._healthz})

    def begin(self, method: str, target: str, body: bytes = b"", **headers: str) -> Recorder:
        """Hand over a request; header names are given with underscores."""
        path, mark, query = target.partition("?")
        fields = {name.replace("_", "-").encode(): v.encode() for name, v in headers.items()}
        fields.setdefault(b"host", b"x")
        request = Request(method, path.encode(), fields, body, query.encode() if mark else None)
        reply = Recorder()
        self.app(request, reply)
        return reply

    async def ask(self, method: str, target: str, body: bytes = b"", **headers: str) -> Heard:
        """Hand over a request and wait for its answer."""
        reply = self.begin(method, target, body, **headers)
        async with asyncio.timeout(10):
            await reply.answered.wait()
        assert reply.response is not None
        return Heard(reply.response)

    async def stream(self, name: str, body: bytes = b"", **headers: str) -> str:
        """Make a stream and return its tail."""
        answer = await self.ask("PUT", "/v1/stream/" + name, body, **headers)
        assert answer.status == 201, answer.body
        return answer.headers["stream-next-offset"]

    def _control(self, request: Request, reply: Reply) -> None:
        self.asked.append(request.path.decode())
        reply.send(Response(299))

    def _healthz(self, _request: Request, reply: Reply) -> None:
        reply.send(Response(200, (), b"fine"))


@contextlib.asynccontextmanager
async def open_door(**settings: Any) -> AsyncIterator[Door]:
    """Open an application on an empty directory."""
    clock = StandingClock()
    async with opened(MemoryDisk().files, clock) as directory:
        yield Door(directory, clock, Settings(**settings))
