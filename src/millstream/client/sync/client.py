"""The blocking client: the asynchronous one on a thread of its own."""

from __future__ import annotations

import ssl as tls
from types import TracebackType
from typing import Self

from millstream.client.aio.client import DEFAULT_ROOT, DEFAULT_URL
from millstream.client.aio.client import Client as AsyncClient
from millstream.client.errors import ClientClosed
from millstream.client.hooks import Hooks
from millstream.client.options import Retry, Values
from millstream.client.sync.portal import Portal
from millstream.client.sync.stream import Stream


class Client:
    """Talks to Durable Streams servers; any thread may use it. Close it, or use ``with``.

    Callables for headers and parameters, and hooks, run on the client's own thread. For the
    options see the asynchronous `Client`.
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
        self._portal = Portal()
        self._client = AsyncClient(
            url,
            root=root,
            headers=headers,
            params=params,
            retry=retry,
            timeout_s=timeout_s,
            hooks=hooks,
            ssl=ssl,
            proxy=proxy,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def stream(
        self,
        name: str,
        *,
        headers: Values | None = None,
        params: Values | None = None,
        content_type: str | None = None,
    ) -> Stream:
        """Return the handle of a stream: a name below the server's root, or a full URL."""
        stream = self._client.stream(
            name, headers=headers, params=params, content_type=content_type
        )
        return Stream(self._portal, stream)

    def close(self) -> None:
        """Drop all connections and end the client's thread; later calls raise ClientClosed."""
        try:
            self._portal.run(self._client.close())
        except ClientClosed:
            return
        self._portal.close()
