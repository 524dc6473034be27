"""A whole server as an ASGI application, for hosting under uvicorn, granian and their like.

    MILLSTREAM_DATA_DIR=./data uvicorn --factory millstream.server.hosted:create_app

Settings come from the environment, as for `millstream serve`. The host's own shutdown waits for
open connections: give it a time limit, since live readers stay.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from millstream.engine.opening import Opened, open_directory
from millstream.server.asgi import AsgiApp
from millstream.server.lifespan import Parts, assemble, engine_options
from millstream.server.settings import Settings, load

if TYPE_CHECKING:
    from millstream.server.asgi import Message, Receive, Send


class HostedServer:
    """Opens its data directory when the host starts up, and closes it when the host shuts down."""

    def __init__(self, settings: Settings) -> None:
        """Wait for the host's start-up message."""
        self._settings = settings
        self._opened: Opened | None = None
        self._parts: Parts | None = None
        self._app: AsgiApp | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http" and self._app is not None:
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1003})
        else:
            message = "the host must send the lifespan start-up message first"
            raise RuntimeError(message)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await self._start()
        except Exception as error:
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            raise
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._stop()
        await send({"type": "lifespan.shutdown.complete"})

    async def _start(self) -> None:
        settings = self._settings
        self._opened = await open_directory(settings.data_dir, engine_options(settings))
        self._parts = await assemble(settings, self._opened)
        self._parts.courier.start(settings.public_url or f"http://{settings.host}:{settings.port}")
        self._app = AsgiApp(self._parts.app, settings)

    async def _stop(self) -> None:
        assert self._parts is not None
        assert self._opened is not None
        self._parts.end_live()
        await self._parts.courier.stop()
        await self._opened.close()


def create_app() -> HostedServer:
    """Return the application with settings from the environment (``MILLSTREAM_*``)."""
    environment = os.environ  # noqa: TID251 - a factory takes no arguments
    return HostedServer(load(None, environment).settings)
