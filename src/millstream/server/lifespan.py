"""The life of a server process: open, listen, wait for a signal, end in order."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from typing import TYPE_CHECKING, NamedTuple

import uvloop

from millstream import __version__
from millstream.engine.opening import EngineOptions, Opened, open_directory
from millstream.server import openapi
from millstream.server.app import App
from millstream.server.context import Context
from millstream.server.edge import Edge
from millstream.server.gauges import add_engine_metrics
from millstream.server.handlers import operations
from millstream.server.handlers.subscriptions import SubscriptionDoor
from millstream.server.keys import load_keys
from millstream.server.listener import Listener
from millstream.server.logs import configure_logs
from millstream.server.metrics import Counters, Metrics, add_edge_metrics
from millstream.server.stream_routes import ALL_ROUTES
from millstream.server.webhooks import Courier

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.server.http import Handler
    from millstream.server.settings import Settings

_log = logging.getLogger(__name__)


def run(settings: Settings, on_ready: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM; ``on_ready`` gets the URL once requests are taken.

    Raises StorageError when the data directory must not be opened, OSError when the address
    cannot be bound.
    """
    configure_logs(settings, sys.stderr)
    uvloop.run(serve(settings, on_ready))


async def serve(
    settings: Settings,
    on_ready: Callable[[str], None],
    stopping: asyncio.Event | None = None,
) -> None:
    """Serve until a signal comes or ``stopping`` is set."""
    stopping = stopping or asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopping.set)
    opened = await open_directory(settings.data_dir, engine_options(settings))
    try:
        await _listen(settings, opened, on_ready, stopping)
    finally:
        await opened.close()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


def engine_options(settings: Settings) -> EngineOptions:
    """Return the part of the settings that the engine needs."""
    return EngineOptions(**{name: getattr(settings, name) for name in EngineOptions._fields})


async def _listen(
    settings: Settings, opened: Opened, on_ready: Callable[[str], None], stopping: asyncio.Event
) -> None:
    parts = await assemble(settings, opened)
    listener = Listener(Edge(settings, parts.app, parts.counters, find_lane=parts.app.lane))
    listener.on_stopping(parts.end_live)
    await listener.start()
    parts.courier.start(listener.url)
    on_ready(listener.url)
    try:
        await stopping.wait()
        _log.info("stopping")
    finally:
        await parts.courier.stop()
        await listener.stop()


class Parts(NamedTuple):
    """A server but for the edge that carries its requests."""

    app: App
    context: Context
    courier: Courier
    counters: Counters

    def end_live(self) -> None:
        """End every long-poll and SSE session; their clients come back."""
        for end in tuple(self.context.live):
            end()


async def assemble(settings: Settings, opened: Opened) -> Parts:
    """Put the doors on an open data directory. Raises OSError when the keys cannot be had."""
    keys = await asyncio.to_thread(load_keys, settings.data_dir)
    context = Context(opened.engine, settings, set())
    counters = Counters()
    door = SubscriptionDoor(opened.engine, keys, settings)
    app = App(context, door, _pages(opened, counters, context))
    return Parts(app, context, Courier(opened.engine, keys, settings), counters)


def _pages(
    opened: Opened, counters: Counters, context: Context
) -> dict[tuple[str, bytes], Handler]:
    metrics = Metrics()
    add_edge_metrics(metrics, counters)
    add_engine_metrics(metrics, opened, context)

    def readiness() -> tuple[bool, list[str]]:
        failure = opened.engine.writer.failure
        if failure is not None:
            return False, [f"the log stopped taking writes: {failure}"]
        if opened.disk.prepare_error is not None:
            return False, [f"no room for the next log file: {opened.disk.prepare_error}"]
        return True, []

    return {
        ("GET", b"/healthz"): operations.healthz,
        ("GET", b"/readyz"): operations.make_readyz(readiness),
        ("GET", b"/metrics"): operations.make_metrics(metrics),
        ("GET", b"/openapi.json"): operations.make_openapi(
            openapi.document(ALL_ROUTES, __version__)
        ),
    }
