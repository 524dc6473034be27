"""A stream handle without a network: a producer's requests go to a model server, or nowhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from millstream.client.aio.calls import Caller
from millstream.client.aio.producer import Producer
from millstream.client.core.answers import Answer
from millstream.client.core.requests import Request
from millstream.client.core.results import Head
from millstream.client.core.tries import Try
from millstream.client.errors import NetworkFailed
from millstream.client.hooks import NO_HOOKS, Hooks
from millstream.client.options import Retry
from millstream.client.producing_options import ProducerOptions
from tests.support.producer_world import JSON, URL, ModelServer

QUICK = Retry(initial_delay_s=0.001, max_delay_s=0.002)


class ModelCalls:
    """Takes the place of a `Caller`. ``gate`` holds requests back; ``faults`` happen in turn."""

    def __init__(self, server: ModelServer, hooks: Hooks = NO_HOOKS) -> None:
        self.server = server
        self.hooks = hooks
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.sent: list[Request] = []
        self.faults: list[Exception | Callable[[], Answer]] = []
        self.running = 0

    async def once(self, request: Request, attempt: int = 1) -> Answer:
        self.sent.append(request)
        self.arrived.set()
        self.running += 1
        try:
            await self.gate.wait()
        finally:
            self.running -= 1
        if self.faults:
            fault = self.faults.pop(0)
            if isinstance(fault, Exception):
                raise fault
            return fault()
        return self.server.handle(Try(request, None, attempt))

    def draw(self) -> float:
        return 0.5


class ModelStream:
    """Takes the place of a `Stream`."""

    def __init__(self, content_type: str | None = JSON, hooks: Hooks = NO_HOOKS) -> None:
        self.url = URL
        self.server = ModelServer()
        self.model = ModelCalls(self.server, hooks)
        self.calls = cast("Caller", self.model)
        self.content_type = content_type
        self.heads = 0

    async def head(self) -> Head:
        self.heads += 1
        self.content_type = JSON
        return Head(
            offset="0",
            content_type=JSON,
            is_closed=False,
            ttl_s=None,
            expires_at=None,
            etag=None,
        )

    def producer(self, **options: Any) -> Producer:
        """Return a producer that does not linger and retries quickly."""
        options = {"linger_ms": 0, "retry": QUICK, **options}
        return Producer(self, "p", ProducerOptions(**options))


def broken(*, is_sent: bool = True) -> NetworkFailed:
    """A connection that broke."""
    return NetworkFailed("broken", is_uncertain=is_sent)
