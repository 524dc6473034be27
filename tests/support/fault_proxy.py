"""An HTTP proxy that does to a client what networks, gateways and restarts do, by a seed.

It reads one request after the other from each connection, draws a fault for it, and forwards it,
or not, to the real server. When that server is gone, being killed and started again, the client
sees cut connections, as it would without a proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import random
import socket
import struct
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Coroutine, Mapping
from typing import NamedTuple, Self

HOST = "127.0.0.1"
PIECE_BYTES = 1 << 16
# A held request goes on after this long even if nothing has overtaken it: it may be the only one.
HOLD_S = 0.05
REFUSALS = (
    b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n",
)
GATEWAY_TIMEOUT = b"HTTP/1.1 504 Gateway Timeout\r\nContent-Length: 0\r\n\r\n"


class Fault(enum.Enum):
    """What may happen to one request."""

    CUT_BEFORE = "the connection is cut and the server never sees the request"
    REFUSED = "500, 503 or 429, and the server never sees the request"
    LOST_ANSWER = "the server does the work, the answer is dropped and the connection cut"
    FALSE_504 = "the server does the work and the client is told 504"
    CUT_ANSWER = "the connection is cut inside the answer"
    LATE = "the connection is cut at once and the server sees the request later"
    STALL = "nothing happens for a while; longer than the client waits, if that is short"
    REORDER = "a later request of the same producer overtakes this one"


ALL_FAULTS: Mapping[Fault, float] = {
    Fault.CUT_BEFORE: 0.02,
    Fault.REFUSED: 0.03,
    Fault.LOST_ANSWER: 0.03,
    Fault.FALSE_504: 0.02,
    Fault.CUT_ANSWER: 0.02,
    Fault.LATE: 0.02,
    Fault.STALL: 0.01,
    Fault.REORDER: 0.05,
}


class Stamp(NamedTuple):
    """A producer's batch as its headers name it."""

    producer_id: str
    epoch: str
    seq: str


class Request(NamedTuple):
    """A whole request; header names are in lower case."""

    method: str
    headers: dict[str, str]
    raw: bytes

    @property
    def stamp(self) -> Stamp:
        """The batch that this request carries; empty texts if no producer sent it."""
        names = ("producer-id", "producer-epoch", "producer-seq")
        return Stamp(*(self.headers.get(name, "") for name in names))


class _Level:
    """A count that rises, and that one can wait for."""

    def __init__(self) -> None:
        self._count = 0
        self._awaited: defaultdict[int, asyncio.Event] = defaultdict(asyncio.Event)

    def rise(self) -> None:
        self._count += 1
        for count in [count for count in self._awaited if count <= self._count]:
            self._awaited.pop(count).set()

    async def reached(self, count: int) -> None:
        if self._count < count:
            await self._awaited[count].wait()


class FaultProxy:
    """A proxy in front of the server on `port`; use it in an `async with`.

    `seed` decides which faults come in which order; `shares` how often each comes. `is_down` cuts
    everything that arrives. `counts` tells how often each fault was applied and `forwarded` how
    often the server was sent each batch.
    """

    def __init__(
        self,
        port: int,
        *,
        seed: int = 0,
        shares: Mapping[Fault, float] = ALL_FAULTS,
        stall_s: float = 1.5,
    ) -> None:
        self.is_down = False
        self.counts: Counter[Fault] = Counter()
        self.forwarded: Counter[Stamp] = Counter()
        self.url = ""
        self._port = port
        self._random = random.Random(seed)
        self._shares = dict(shares)
        self._stall_s = stall_s
        self._answered: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._answers = _Level()
        self._draws = _Level()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, HOST, 0)
        self.url = f"http://{HOST}:{self._listener.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._listener is not None
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def heal(self) -> None:
        """Apply no faults from now on."""
        self._shares = {}
        self.is_down = False

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._spawn(_Exchange(self, reader, writer).run())

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def draw(self) -> Fault | None:
        """Return the fault for the next request, or None."""
        self._draws.rise()
        point = self._random.random()
        for fault, share in self._shares.items():
            point -= share
            if point < 0:
                self.counts[fault] += 1
                return fault
        return None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the server; raises OSError while it is away."""
        return await asyncio.open_connection(HOST, self._port, limit=1 << 20)

    def refusal(self) -> bytes:
        """Return one of the answers that mean: not now."""
        return self._random.choice(REFUSALS)

    def cut_point(self) -> int:
        """Return how many bytes of an answer get through before the cut."""
        return self._random.choice((1, 20, 150, 300, 2000, 20_000))

    async def stall(self) -> None:
        """Wait for a while that the seed decides."""
        await asyncio.sleep(self._random.uniform(0, self._stall_s))

    async def be_overtaken(self, request: Request) -> None:
        """Return when another request of the same producer was answered, or after a while."""
        event = self._answered[request.stamp.producer_id]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HOLD_S):
                await event.wait()

    def note_sent(self, request: Request) -> None:
        """Remember that the server is sent this request."""
        self.forwarded[request.stamp] += 1

    def note_answered(self, request: Request) -> None:
        """Let requests go on that this one was to overtake."""
        self._answered.pop(request.stamp.producer_id, asyncio.Event()).set()
        self._answers.rise()

    async def has_answered(self, count: int) -> None:
        """Return as soon as the server has answered so many requests."""
        await self._answers.reached(count)

    async def has_drawn(self, count: int) -> None:
        """Return as soon as so many requests have arrived and their faults were drawn."""
        await self._draws.reached(count)

    def send_late(self, request: Request) -> None:
        """Send the request to the server when its sender has given it up."""
        self._spawn(self._late(request))

    async def _late(self, request: Request) -> None:
        await asyncio.sleep(self._random.uniform(0, 2 * HOLD_S))
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await self.connect()
            with contextlib.closing(writer):
                self.note_sent(request)
                writer.write(request.raw)
                async for _ in answer_pieces(reader, request.method):
                    pass
                self.note_answered(request)


class _Exchange:
    """One connection of a client, and the one to the server that serves it."""

    def __init__(
        self, proxy: FaultProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._proxy = proxy
        self._reader = reader
        self._writer = writer
        self._server: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self) -> None:
        """Serve requests until a fault, either side or the end of the proxy ends it."""
        try:
            while await self._serve(await read_request(self._reader)):
                pass
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            reset(self._writer)
            if self._server is not None:
                reset(self._server[1])

    async def _serve(self, request: Request) -> bool:
        """Do with one request what was drawn for it; return whether the connection goes on."""
        fault = self._proxy.draw()
        if self._proxy.is_down or fault is Fault.CUT_BEFORE:
            return False
        if fault is Fault.REFUSED:
            return await self._answer(self._proxy.refusal())
        if fault is Fault.LATE:
            self._proxy.send_late(request)
            return False
        if fault is Fault.STALL:
            await self._proxy.stall()
        if fault is Fault.REORDER:
            await self._proxy.be_overtaken(request)
        answer = await self._forward(request)
        if fault in {Fault.LOST_ANSWER, Fault.FALSE_504}:
            async for _ in answer:
                pass
            self._proxy.note_answered(request)
            return fault is Fault.FALSE_504 and await self._answer(GATEWAY_TIMEOUT)
        left = self._proxy.cut_point() if fault is Fault.CUT_ANSWER else None
        async for piece in answer:
            await self._answer(piece if left is None else piece[:left])
            if left is not None and (left := left - len(piece)) <= 0:
                return False
        self._proxy.note_answered(request)
        return True

    async def _forward(self, request: Request) -> AsyncIterator[bytes]:
        if self._server is None:
            self._server = await self._proxy.connect()
        reader, writer = self._server
        self._proxy.note_sent(request)
        writer.write(request.raw)
        await writer.drain()
        return answer_pieces(reader, request.method)

    async def _answer(self, data: bytes) -> bool:
        self._writer.write(data)
        await self._writer.drain()
        return True


async def read_request(reader: asyncio.StreamReader) -> Request:
    """Return the next request, whole. Raises IncompleteReadError at the end of the connection."""
    head = await reader.readuntil(b"\r\n\r\n")
    first, headers = fields(head)
    if headers.get("transfer-encoding") == "chunked":
        body = b"".join([piece async for piece in chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(first.split(" ")[0], headers, head + body)


async def answer_pieces(reader: asyncio.StreamReader, method: str) -> AsyncIterator[bytes]:
    """Yield one answer as it comes, head and framing included, so that it can be passed on."""
    head = await reader.readuntil(b"\r\n\r\n")
    yield head
    first, headers = fields(head)
    if method == "HEAD" or first.split(" ")[1] in {"204", "304"}:
        return
    if headers.get("transfer-encoding") == "chunked":
        async for piece in chunks(reader):
            yield piece
        return
    left = int(headers.get("content-length", "0"))
    while left:
        piece = await reader.read(min(left, PIECE_BYTES))
        if not piece:
            raise asyncio.IncompleteReadError(b"", left)
        left -= len(piece)
        yield piece


async def chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the chunks of a body with their framing, the last one included."""
    while True:
        size = await reader.readuntil(b"\r\n")
        data = await reader.readexactly(int(size, 16) + 2)
        yield size + data
        if int(size, 16) == 0:
            return


def fields(head: bytes) -> tuple[str, dict[str, str]]:
    """Return the first line of a head, and its headers by lower-case name."""
    first, *lines = head.decode("latin-1").rstrip().split("\r\n")
    pairs = (line.split(":", 1) for line in lines)
    return first, {name.lower(): value.strip() for name, value in pairs}


def reset(writer: asyncio.StreamWriter) -> None:
    """End a connection as a crash does: with a reset, and without what was still to be sent."""
    sock: socket.socket | None = writer.get_extra_info("socket")
    if sock is not None and sock.fileno() != -1:
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
