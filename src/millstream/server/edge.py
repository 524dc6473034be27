"""The HTTP/1.1 edge: what all connections share, and the sweep that watches their deadlines.

The edge is a thin `asyncio.Protocol` (see `connection`) over the httptools parser (see `intake`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Final

from millstream.server import refusal
from millstream.server.cors import Cors
from millstream.server.heads import Heads
from millstream.server.http import Handler
from millstream.server.lanes import FindLane, Lanes
from millstream.server.metrics import Counters
from millstream.server.settings import Settings

if TYPE_CHECKING:
    from millstream.server.connection import Connection

_SWEEP_S_MAX: Final = 0.5
_SWEEP_S_MIN: Final = 0.01
_LINGER_S_MAX: Final = 2.0
_REFUSED_MAX: Final = 256


class Edge:
    """Shared by all connections of a server. Made, and used, inside a running event loop."""

    def __init__(
        self,
        settings: Settings,
        handler: Handler,
        counters: Counters | None = None,
        *,
        find_lane: FindLane | None = None,
        problem: refusal.Problem = refusal.problem,
        clock: Callable[[], float] = time.time,  # noqa: TID251 - for the Date header only
    ) -> None:
        """Serve `handler` within the limits of `settings`; `clock` feeds the Date header.

        `find_lane` offers short ways for some requests: see `Lanes`.
        """
        self.settings = settings
        self.handler = handler
        self.problem = problem
        self.counters = counters or Counters()
        self.cors = Cors(settings.cors_origins) if settings.cors_origins else None
        self.heads = Heads(clock())
        # What differs by origin is not ready-made, so then every request takes the long way.
        self.lanes = Lanes(settings.uri_bytes_max, None if self.cors is not None else find_lane)
        self.is_stopping = False
        """Whether the server is stopping: every answer now ends its connection."""
        self.body_bytes_held = 0
        """Bytes of unfinished request bodies, over all connections."""
        self.header_s = settings.header_ms / 1000
        self.body_s = settings.body_ms / 1000
        self.idle_s = settings.idle_ms / 1000
        self.stall_s = settings.write_stall_ms / 1000
        shortest_s = min(self.header_s, self.body_s, self.idle_s, self.stall_s)
        self.linger_s = min(_LINGER_S_MAX, shortest_s)
        self._sweep_s = max(_SWEEP_S_MIN, min(_SWEEP_S_MAX, shortest_s / 4))
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time()
        """The time of the last sweep: precise enough for deadlines, and free to read."""
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._emptied: asyncio.Future[None] | None = None
        self._timer = self._loop.call_later(self._sweep_s, self._sweep)

    @property
    def is_flooded(self) -> bool:
        """Whether so many connections wait for their refusal that more are just cut."""
        return len(self._connections) > self.settings.connections_max + _REFUSED_MAX

    @property
    def is_overfull(self) -> bool:
        """Whether unfinished request bodies take more memory than they may."""
        return self.body_bytes_held > self.settings.bodies_bytes_max

    def admit(self, connection: Connection) -> bool:
        """Register a connection; False if it is one too many."""
        self._connections.add(connection)
        self.counters.connections += 1
        if self.counters.connections > self.settings.connections_max:
            self.counters.connections_refused += 1
            return False
        self.counters.connections_accepted += 1
        return True

    def dismiss(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._connections.discard(connection)
        self.counters.connections = len(self._connections)
        if not self._connections and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def run(self, coro: Coroutine[object, object, None]) -> asyncio.Task[None]:
        """Run a handler's coroutine and hold on to its task until it ends."""
        task = self._loop.create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def drain(self, stop_s: float) -> int:
        """End all connections, each after the answer it waits for.

        Those that are not done after `stop_s` seconds are cut; returns how many. The caller has
        already stopped accepting and has told live readers to end.
        """
        self.is_stopping = True
        for connection in tuple(self._connections):
            connection.wind_down()
        cut = 0
        if self._connections and not await self._wait_until_empty(stop_s):
            cut = len(self._connections)
            for connection in tuple(self._connections):
                connection.transport.abort()
            await self._wait_until_empty(1.0)
        self._timer.cancel()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return cut

    async def _wait_until_empty(self, limit_s: float) -> bool:
        if not self._connections:
            return True
        self._emptied = self._loop.create_future()
        done, _ = await asyncio.wait((self._emptied,), timeout=limit_s)
        return bool(done)

    def _sweep(self) -> None:
        self._timer = self._loop.call_later(self._sweep_s, self._sweep)
        now = self.now = self._loop.time()
        self.heads.set_date(self._clock())
        late = [c for c in self._connections if c.deadline <= now or c.stall_at <= now]
        for connection in late:
            connection.expire(now)
