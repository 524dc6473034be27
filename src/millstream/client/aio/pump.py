"""Drives a producer's session: one task per try, one timer for everything that is due later."""

from __future__ import annotations

import asyncio

from millstream.client.aio.calls import Caller, call_of
from millstream.client.aio.delivery import wake
from millstream.client.core.answers import refusal
from millstream.client.core.backoff import is_transient
from millstream.client.core.batches import Batch
from millstream.client.core.producing import Session
from millstream.client.core.tries import Try
from millstream.client.errors import BadOption, ClientError, ProducerClosed, public_url
from millstream.client.hooks import notify


class Pump:
    """Sends what the session wants sent, hands it the answers, and wakes those who wait."""

    def __init__(self, session: Session, calls: Caller, url: str) -> None:
        self._session = session
        self._calls = calls
        self._url = public_url(url)
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._room: asyncio.Future[None] | None = None
        self.is_kicked = False

    def kick(self) -> None:
        """Have the session asked what to do, once, when the caller has let go of the loop."""
        if not self.is_kicked:
            self.is_kicked = True
            asyncio.get_running_loop().call_soon(self._run)

    async def change(self) -> None:
        """Return when something was settled, or at least tried. One may wait at a time."""
        self._room = asyncio.get_running_loop().create_future()
        await self._room

    async def idle(self) -> None:
        """Return when no try is under way."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def halt(self, why: str) -> None:
        """Leave nothing running. What has no report yet gets one now. Safe to repeat."""
        if self._session.unsettled:
            error = ProducerClosed(f"{why} before the message was delivered", url=self._url)
            self._session.stop(error, is_abandoned=True)
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        self.disarm()
        self._tell(asyncio.get_running_loop().time())
        if tasks:
            await asyncio.wait(tasks)

    def disarm(self) -> None:
        """Forget the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self.is_kicked = False
        loop = asyncio.get_running_loop()
        now = loop.time()
        while (sent := self._session.next(now)) is not None:
            task = loop.create_task(self._try(sent))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        self._tell(now)
        self.disarm()
        wake_s = self._session.wake_s(now)
        if wake_s is not None:
            self._timer = loop.call_at(wake_s, self._run)

    async def _try(self, sent: Try) -> None:
        error: ClientError | None
        try:
            answer = await self._calls.once(sent.request, sent.attempt)
            error = refusal(sent.request, answer)
            if error is None:
                self._session.accepted(sent, answer)
        except ClientError as failed:
            error = failed
        except Exception as failed:  # noqa: BLE001 - whatever a callable of the caller raises
            text = f"a header or parameter could not be made ({type(failed).__name__})"
            error = BadOption(text, url=self._url)
            error.__cause__ = failed
        if error is not None:
            now = asyncio.get_running_loop().time()
            self._session.failed(sent, error, now, self._calls.draw())
            if is_transient(error):
                delay_s = max(self._session.trouble.ready_s - now, 0.0)
                call = call_of(sent.request, sent.attempt)
                notify(self._calls.hooks.on_retry, call, error, delay_s)
        self._run()

    def _tell(self, now: float) -> None:
        """Wake those who wait for what was settled or split, and who waits for room."""
        changed, self._session.outcomes.settled = self._session.outcomes.settled, []
        for batch in changed:
            wake(batch)
            if batch.outcome is not None:
                self._report(batch, now)
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    def _report(self, batch: Batch, now: float) -> None:
        error = batch.outcome if isinstance(batch.outcome, ClientError) else None
        hook = self._calls.hooks.on_delivery
        notify(hook, self._url, batch.count, max(now - batch.born_s, 0.0), error)
