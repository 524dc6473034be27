"""The client: one set of connections and options, and handles of streams."""

from __future__ import annotations

import ssl as tls
from types import TracebackType
from typing import Self

from millstream.client.aio.calls import Caller
from millstream.client.aio.stream import Address, Stream
from millstream.client.aio.transport import Transport
from millstream.client.hooks import Hooks
from millstream.client.options import Retry, Values, checked_timeout, checked_url

DEFAULT_URL = "http://127.0.0.1:4437"
DEFAULT_ROOT = "/v1/stream/"


class Client:
    """Talks to Durable Streams servers from one event loop. Close it, or use ``async with``.

    ``headers`` and ``params`` go with every request; a callable, also an async one, is asked
    before every try, so that a token is always fresh. ``timeout_s`` limits a write as a whole and
    the silence within a read; a live read may be silent as long as servers hold it.
    """

    def __init__(  # noqa: PLR0913 - options of a connection, each by its name
        self,
        url: str = DEFAULT_URL,
        *,
        root: str = DEFAULT_ROOT,
        headers: Values | None = None,
        params: Values | None = None,
        retry: Retry | None = None,
        timeout_s: float = 30.0,
        hooks: Hooks | None = None,
        ssl: tls.SSLContext | bool | None = None,
        proxy: str | None = None,
    ) -> None:
        self._address = Address(checked_url(url), root)
        self._transport = Transport(timeout_s=checked_timeout(timeout_s), ssl=ssl, proxy=proxy)
        self._caller = Caller(
            self._transport, headers=headers, params=params, retry=retry, hooks=hooks
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    def stream(
        self,
        name: str,
        *,
        headers: Values | None = None,
        params: Values | None = None,
        content_type: str | None = None,
    ) -> Stream:
        """Return the handle of a stream: a name below the server's root, or a full URL.

        Nothing is sent. A content type that is known saves a request before the first append.
        """
        return Stream(
            self._caller.narrowed(headers, params),
            self._address.url_of(name),
            address=self._address,
            content_type=content_type,
        )

    async def close(self) -> None:
        """Drop all connections; calls in flight fail, later ones raise ClientClosed. Repeatable."""
        await self._transport.close()
