"""Runs requests: the caller's headers and parameters, hooks, and retries where they are safe."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Final, Self

from millstream.client.aio.transport import Streaming, Transport
from millstream.client.core.answers import Answer, is_done_before, refusal
from millstream.client.core.backoff import Backoff, may_have_happened
from millstream.client.core.requests import Request
from millstream.client.errors import BadOption, ClientError, public_url
from millstream.client.hooks import NO_HOOKS, Call, Hooks, notify
from millstream.client.options import Retry, Value, Values

_FORBIDDEN_IN_HEADERS: Final = frozenset("\r\n\0")


class Caller:
    """What every request of one handle shares: transport, headers, parameters, patience, hooks."""

    def __init__(
        self,
        transport: Transport,
        *,
        headers: Values | None = None,
        params: Values | None = None,
        retry: Retry | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        self.transport = transport
        self.retry = retry or Retry()
        self.hooks = hooks or NO_HOOKS
        self._headers = dict(headers or {})
        self._params = dict(params or {})

    def narrowed(self, headers: Values | None, params: Values | None) -> Caller:
        """Return a caller with more headers and parameters; of two with one name the new wins."""
        lowered = {name.lower() for name in headers or {}}
        kept = {name: value for name, value in self._headers.items() if name.lower() not in lowered}
        return Caller(
            self.transport,
            headers={**kept, **(headers or {})},
            params={**self._params, **(params or {})},
            retry=self.retry,
            hooks=self.hooks,
        )

    async def prepared(self, request: Request) -> Request:
        """Add the caller's headers and parameters, each callable asked anew."""
        if not self._headers and not self._params:
            return request
        return request.with_extras(
            await _evaluated(self._headers, "header"), await _evaluated(self._params, "parameter")
        )

    async def once(self, request: Request, attempt: int = 1) -> Answer:
        """Send one try and return the answer, whatever its status.

        Raises NetworkFailed or Timeout; BadOption if a callable gives no usable text.
        """
        return await self._send(request, call_of(request, attempt))

    async def open(self, request: Request, attempt: int = 1) -> Streaming:
        """Open one try as a stream; the caller closes it. Raises the refusal, or as `once`."""
        with _Report(self.hooks, call_of(request, attempt)) as report:
            streaming = await self.transport.open(await self.prepared(request))
            report.status = streaming.status
            if 200 <= streaming.status < 300:
                return streaming
            try:
                error = refusal(request, await streaming.answer())
            finally:
                streaming.close()
            assert error is not None
            raise error

    async def run(
        self, request: Request, *, retry: Retry | None = None, retry_unsafe: bool = False
    ) -> Answer:
        """Return the answer to a request that was done; raises the error it was refused with.

        A try is repeated after a passing failure if the request is repeatable, or the failed try
        certainly had no effect, or ``retry_unsafe`` accepts that it may take effect twice.
        """
        backoff = Backoff(retry or self.retry, time.monotonic())
        is_repeat = False
        while True:
            call = call_of(request, backoff.attempt)
            try:
                answer = await self._send(request, call)
                error = refusal(request, answer)
                if error is None or (is_repeat and is_done_before(request, answer)):
                    return answer
                raise error
            except ClientError as failed:
                may_repeat = request.is_repeatable or retry_unsafe or not may_have_happened(failed)
                delay_s = self.delay_s(backoff, failed) if may_repeat else None
                if delay_s is None:
                    raise
                is_repeat = is_repeat or may_have_happened(failed)
                notify(self.hooks.on_retry, call, failed, delay_s)
            await asyncio.sleep(delay_s)

    def delay_s(self, backoff: Backoff, error: ClientError) -> float | None:
        """Return how long to wait before the next try, or None to give up."""
        return backoff.delay_s(error, now=time.monotonic(), draw=self.draw())

    def draw(self) -> float:
        """Return a random number from 0 to 1 that spreads delays."""
        return random.random()

    async def _send(self, request: Request, call: Call) -> Answer:
        with _Report(self.hooks, call) as report:
            answer = await self.transport.send(await self.prepared(request))
            report.status = answer.status
            report.error = None if answer.is_ok else refusal(request, answer)
            return answer


def call_of(request: Request, attempt: int) -> Call:
    """Return a try as hooks see it."""
    return Call(request.method, public_url(request.url), request.operation.value, attempt)


class _Report:
    """Tells the hooks of the beginning and, however the block is left, of the end of a try."""

    def __init__(self, hooks: Hooks, call: Call) -> None:
        self._hooks = hooks
        self._call = call
        self._began = 0.0
        self.status: int | None = None
        self.error: ClientError | None = None

    def __enter__(self) -> Self:
        self._began = time.monotonic()
        notify(self._hooks.on_request, self._call)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        error = exc if isinstance(exc, ClientError) else self.error
        seconds = time.monotonic() - self._began
        notify(self._hooks.on_response, self._call, self.status, seconds, error)


async def _evaluated(values: Mapping[str, Value], what: str) -> dict[str, str]:
    """Ask every callable; the errors name the header or parameter and never its value."""
    found: dict[str, str] = {}
    for name, value in values.items():
        text: Any = value() if callable(value) else value
        if inspect.isawaitable(text):
            text = await text
        if not isinstance(text, str):
            raise BadOption(f"{what} {name}: the value must be text")
        if what == "header" and not _FORBIDDEN_IN_HEADERS.isdisjoint(text):
            raise BadOption(f"{what} {name}: the value has a line end or a zero byte")
        found[name] = text
    return found
