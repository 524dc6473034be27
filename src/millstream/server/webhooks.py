"""The courier: posts wakes to webhooks and reports how it went.

Whether and when a wake is posted is decided by the state machine and durable; the courier only
does it. After a restart the same wake is posted again under the same name and generation, so a
receiver can tell a repeat.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import ssl
import time
from typing import TYPE_CHECKING, Final

from millstream.core.errors import Refused
from millstream.core.subscriptions.commands import (
    Delivery,
    GetDelivery,
    Grant,
    Outcome,
    WebhookOutcome,
)
from millstream.server.alarms import Alarms, Desk
from millstream.server.keys import CALLBACK, Keys
from millstream.server.posting import Parcel, PostFailed, within
from millstream.server.ssrf import Guard
from millstream.wire.wakes import delivery_body, is_done

if TYPE_CHECKING:
    from collections.abc import Callable

    from millstream.server.settings import Settings

_log = logging.getLogger(__name__)

ANSWER_S: Final = 10.0
"""How long one delivery may take, from the look-up of the name to the end of the answer."""
COURIERS: Final = 128
"""How many deliveries run at once."""
_JITTER_STEPS: Final = 1 << 20


def guard_of(settings: Settings) -> Guard:
    """Return the rules for webhook addresses: local receivers only for a local server."""
    return Guard(settings.is_loopback, settings.webhook_allow_private)


class Courier:
    """Delivers what is due, a bounded number at a time."""

    def __init__(
        self,
        desk: Desk,
        keys: Keys,
        settings: Settings,
        wall_s: Callable[[], float] = time.time,  # noqa: TID251 - signatures carry the wall clock
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """``tls`` says whom to trust; by default whom the machine trusts."""
        self._desk = desk
        self._keys = keys
        self._guard = guard_of(settings)
        self._base_url = settings.public_url
        self._own_url = ""
        self._stop_s = settings.stop_ms / 1000
        self._wall_s = wall_s
        self._tls = tls
        self._alarms = Alarms(desk, self.deliver)
        self._active: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(COURIERS)
        self._is_stopping = False

    def start(self, own_url: str) -> None:
        """Take up the last run's deliveries and all that come; ``own_url`` is the server's."""
        self._own_url = own_url
        self._alarms.start()

    async def stop(self) -> None:
        """Begin nothing more, and let what is under way end within the time for a graceful stop.

        What is cut off then is delivered again after the next start.
        """
        self._is_stopping = True
        tasks = list(self._active.values())
        if not tasks:
            return
        _, late = await asyncio.wait(tasks, timeout=self._stop_s)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def deliver(self, sub_no: int, generation: int) -> None:
        """Post a wake, unless that is being done already."""
        key = (sub_no, generation)
        if self._is_stopping or key in self._active:
            return
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._deliver(sub_no, generation))
        self._active[key] = task
        task.add_done_callback(lambda done: self._ended(key, done))

    def _ended(self, key: tuple[int, int], task: asyncio.Task[None]) -> None:
        if self._active.get(key) is task:
            del self._active[key]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("a webhook delivery broke", exc_info=error)

    async def _deliver(self, sub_no: int, generation: int) -> None:
        async with self._places:
            if self._is_stopping:
                return
            delivery = await self._desk.ask(GetDelivery(sub_no, generation))
            if isinstance(delivery, Refused):
                # No room in the engine just now: come back, or the wake would be forgotten.
                self._again(sub_no, generation)
                return
            if not isinstance(delivery, Delivery):
                return
            outcome = await self._post(delivery)
        # From here on the same wake may be posted again.
        self._active.pop((sub_no, generation), None)
        jitter = secrets.randbelow(_JITTER_STEPS) / _JITTER_STEPS
        self._alarms.insist(WebhookOutcome(sub_no, generation, delivery.attempts, outcome, jitter))

    def _again(self, sub_no: int, generation: int) -> None:
        again_ms = self._desk.clock.now_ms() + 1000
        self._desk.timers.at(again_ms, lambda: self.deliver(sub_no, generation))

    async def _post(self, delivery: Delivery) -> Outcome:
        target = self._guard.check_url(delivery.url)
        if isinstance(target, Refused):
            return self._failed(delivery, target.detail)
        grant = Grant(
            CALLBACK, delivery.sub_id, delivery.sub_no, delivery.generation, delivery.wake_id
        )
        base_url = self._base_url or delivery.base_url or self._own_url
        body = delivery_body(delivery, base_url.rstrip("/"), self._keys.token(grant))
        headers = (
            ("Content-Type", "application/json"),
            ("User-Agent", "millstream"),
            ("Webhook-Signature", self._keys.signature(body, int(self._wall_s()))),
        )
        if target.is_tls and self._tls is None:
            self._tls = ssl.create_default_context()
        try:
            answer = await within(ANSWER_S, target, self._guard, Parcel(headers, body, self._tls))
        except PostFailed as error:
            return self._failed(delivery, str(error))
        if not 200 <= answer.status < 300:
            return self._failed(delivery, f"the receiver answered {answer.status}")
        return Outcome.DONE if is_done(answer.body) else Outcome.ACCEPTED

    def _failed(self, delivery: Delivery, reason: str) -> Outcome:
        _log.warning(
            "webhook of subscription %r failed, attempt %d: %s",
            delivery.sub_id,
            delivery.attempts + 1,
            reason,
        )
        return Outcome.FAILED
