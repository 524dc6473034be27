"""Hooks: what the client tells tracing and metrics, made to fit spans of OpenTelemetry.

A `Call` is one try of one request. Every `on_request` is followed by exactly one `on_response`
with the same `Call` object, in the same task, so a span can be kept under it. To send trace
context, give the client a header whose value is a callable. No hook sees a payload, a header or
a query.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec

from millstream.client.errors import ClientError

_LOG = logging.getLogger("millstream.client")


class Call(msgspec.Struct, frozen=True, eq=False):
    """One try of one request; ``attempt`` counts from 1. Two calls are never equal."""

    method: str
    url: str
    operation: str
    attempt: int


class Hooks:
    """Derive from it and override what is of interest. A hook that raises is logged and ignored.

    Hooks run on the client's event loop: they must not block.
    """

    def on_request(self, call: Call) -> None:
        """A request is about to be sent."""

    def on_response(
        self, call: Call, status: int | None, seconds: float, error: ClientError | None
    ) -> None:
        """The try is over: its status, or None if no answer came; and the error it means."""

    def on_retry(self, call: Call, error: ClientError, delay_s: float) -> None:
        """The try failed and will be repeated after the delay."""

    def on_reconnect(self, url: str, offset: str, error: ClientError | None) -> None:
        """A live reader connects again at the offset; without an error the server ended it."""

    def on_delivery(
        self, url: str, messages: int, seconds: float, error: ClientError | None
    ) -> None:
        """A producer's batch is settled: delivered, or failed with the error."""


NO_HOOKS = Hooks()


def notify(hook: Callable[..., None], *arguments: Any) -> None:
    """Call a hook. What it raises is logged, without the arguments, and goes no further."""
    try:
        hook(*arguments)
    except Exception:  # noqa: BLE001 - whatever it raises, the work goes on
        _LOG.exception("a hook failed: %s", getattr(hook, "__name__", "hook"))
