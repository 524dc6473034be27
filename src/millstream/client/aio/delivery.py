"""Reports that can be awaited, at no cost for those that nobody awaits.

A batch gets one future when somebody first waits for it; a message has none.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Generator
from typing import Any

from millstream.client.core.batches import Batch, Delivered, Outcome


class Delivery:
    """The report of one message: await it for `Delivered`, or have its error raised.

    It may be awaited any number of times, by anybody, or never.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def outcome(self) -> Outcome | None:
        """The report or the error if it is known already, else None."""
        return self._batch.holder(self._index)[0].outcome

    def __await__(self) -> Generator[Any, None, Delivered]:
        return self._settled().__await__()

    async def _settled(self) -> Delivered:
        batch, index = self._batch.holder(self._index)
        while batch.outcome is None:
            await _change(batch)
            batch, index = batch.holder(index)
        return unwrapped(batch.outcome)


def unwrapped(outcome: Outcome | None) -> Delivered:
    """Return the report, or raise the error: a copy, since many may raise the same one."""
    if isinstance(outcome, Delivered):
        return outcome
    assert outcome is not None
    raise copy.copy(outcome)


async def settled(batch: Batch) -> None:
    """Return when every message of the batch has its outcome, also if it was split."""
    while batch.outcome is None:
        if batch.halves is not None:
            for half in batch.halves:
                await settled(half)
            return
        await _change(batch)


def wake(batch: Batch) -> None:
    """Wake those who wait for the batch, because it was settled or split."""
    waiter, batch.waiter = batch.waiter, None
    if waiter is not None:
        waiter.set_result(None)


async def _change(batch: Batch) -> None:
    if batch.waiter is None:
        batch.waiter = asyncio.get_running_loop().create_future()
    # Shared: one who gives up waiting must not take the others along.
    await asyncio.shield(batch.waiter)
