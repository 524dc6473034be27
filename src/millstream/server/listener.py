"""Start and stop: bind, accept, and end gracefully."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable
from typing import Final

from millstream.server.connection import Connection
from millstream.server.edge import Edge
from millstream.server.settings import Settings

_log = logging.getLogger(__name__)

_BACKLOG: Final = 4096
# Beside client connections: log files, snapshots, webhooks, the loop's own.
_DESCRIPTORS_SPARE: Final = 512


class Listener:
    """Accepts connections for an edge until it is stopped. Started at most once."""

    def __init__(self, edge: Edge) -> None:
        """Wait for `start`."""
        self._edge = edge
        self._server: asyncio.Server | None = None
        self._stopping: list[Callable[[], None]] = []

    @property
    def port(self) -> int:
        """The port that is listened on; useful when the settings say 0."""
        if self._server is None:
            raise RuntimeError("the listener has not been started")
        return int(self._server.sockets[0].getsockname()[1])

    @property
    def url(self) -> str:
        """The URL of the server as this machine sees it."""
        host = self._edge.settings.host
        shown = f"[{host}]" if ":" in host else host
        return f"http://{shown}:{self.port}"

    async def start(self) -> None:
        """Bind and accept. Raises OSError if the address cannot be bound."""
        settings = self._edge.settings
        ensure_descriptors(settings)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._edge),
            settings.host.strip("[]"),
            settings.port,
            backlog=_BACKLOG,
        )

    def on_stopping(self, callback: Callable[[], None]) -> None:
        """Call back when a stop begins: the time to end live answers and to turn unready."""
        self._stopping.append(callback)

    async def stop(self) -> int:
        """Stop gracefully; returns how many connections had to be cut.

        No new connection is accepted; live readers are told; what is in flight is answered; idle
        connections are closed; what is left after ``stop_ms`` is cut.
        """
        if self._server is None:
            return 0
        self._server.close()
        self._edge.is_stopping = True
        for callback in self._stopping:
            try:
                callback()
            except Exception:  # noqa: BLE001 - every callback gets its turn
                _log.exception("a callback at stop raised")
        cut = await self._edge.drain(self._edge.settings.stop_ms / 1000)
        if cut:
            _log.warning("cut %d connections that were not done in time", cut)
        return cut


def ensure_descriptors(settings: Settings) -> None:
    """Raise the limit of open files as far as needed and allowed; warn if it stays too low."""
    needed = settings.connections_max + _DESCRIPTORS_SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        if raised < needed:
            _log.warning(
                "only %d files may be open; connections_max %d needs %d (raise ulimit -n)",
                raised,
                settings.connections_max,
                needed,
            )
