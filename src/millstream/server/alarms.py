"""Watches the deadlines of wakes: leases that run out, pull-wakes nobody claims, retries due.

It holds nothing that is not durable: after a restart it asks which wakes there are and goes on.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from millstream.core.errors import Code, Refused
from millstream.core.subscriptions.commands import (
    AnnounceWake,
    ExpireLease,
    ListWakes,
    SubscriptionCommand,
    Wakes,
)
from millstream.core.subscriptions.events import (
    LeaseExtended,
    RetryScheduled,
    SubscriptionDeleted,
    WakeClaimed,
    WakeEnded,
    WakeIssued,
)

if TYPE_CHECKING:
    from asyncio import Future
    from collections.abc import Callable

    from millstream.core.events import Event
    from millstream.core.machine import Command
    from millstream.engine.clock import Clock
    from millstream.engine.timers import Timers

_log = logging.getLogger(__name__)

AGAIN_MS = 1_000
"""When a command that the engine had no room for is given again."""

_LASTING = (Code.STOPPING, Code.STORAGE_FAILED)
"""Refusals that no waiting cures in this life of the server."""


class Desk(Protocol):
    """The engine, as far as wakes need it."""

    @property
    def clock(self) -> Clock:
        """The engine's clock."""

    @property
    def timers(self) -> Timers:
        """The engine's deadlines."""

    def submit(
        self, command: Command, callback: Callable[[object], None] | None = None, size: int = 0
    ) -> None:
        """Have a command decided and made durable."""

    def ask(self, command: Command, size: int = 0) -> Future[object]:
        """Have a command decided and made durable, and await the answer."""

    def observe(self, observer: Callable[[Event], None]) -> None:
        """Call back for every event once it is durable."""


class Alarms:
    """Gives the right command, or the word to deliver, when a deadline comes."""

    def __init__(self, desk: Desk, deliver: Callable[[int, int], None]) -> None:
        """``deliver(sub_no, generation)`` is told of every webhook that is due."""
        self._desk = desk
        self._deliver = deliver
        self._leases: dict[int, tuple[int, int]] = {}
        self._armed: set[int] = set()

    def start(self) -> None:
        """Watch what happens from now on, and take up what was there before."""
        self._desk.observe(self.see)
        self._desk.submit(ListWakes(), self._take_up)

    def see(self, event: Event) -> None:
        """Note a durable event; nearly all are of no concern and cost one look-up."""
        note = _NOTES.get(type(event))
        if note is not None:
            note(self, event)

    def insist(self, command: SubscriptionCommand) -> None:
        """Give a command until it is taken: a deadline that passed must not be forgotten."""

        def check(answer: object) -> None:
            if isinstance(answer, Refused) and answer.code not in _LASTING:
                again_ms = self._desk.clock.now_ms() + AGAIN_MS
                self._desk.timers.at(again_ms, lambda: self.insist(command))

        self._desk.submit(command, check)

    def _take_up(self, answer: object) -> None:
        if not isinstance(answer, Wakes):
            _log.error("the wakes of the last run cannot be taken up: %s", answer)
            return
        for wake in answer.wakes:
            if wake.lease_until_ms:
                self._lease(wake.sub_no, wake.generation, wake.lease_until_ms)
            else:
                self._attempt(
                    wake.sub_no, wake.generation, wake.next_attempt_ms, is_webhook=wake.is_webhook
                )

    def _attempt(
        self, sub_no: int, generation: int, next_attempt_ms: int, *, is_webhook: bool
    ) -> None:
        """Deliver a webhook, or announce a pull-wake again, when its time comes."""
        if not is_webhook:
            command = AnnounceWake(sub_no, generation)
            self._desk.timers.at(next_attempt_ms, lambda: self.insist(command))
        elif next_attempt_ms <= self._desk.clock.now_ms():
            self._deliver(sub_no, generation)
        else:
            self._desk.timers.at(next_attempt_ms, lambda: self._deliver(sub_no, generation))

    def _lease(self, sub_no: int, generation: int, lease_until_ms: int) -> None:
        """Note a lease; one timer a subscription, however often its holder shows life."""
        self._leases[sub_no] = (generation, lease_until_ms)
        if sub_no not in self._armed:
            self._armed.add(sub_no)
            self._desk.timers.at(lease_until_ms, lambda: self._lease_due(sub_no))

    def _lease_due(self, sub_no: int) -> None:
        self._armed.discard(sub_no)
        lease = self._leases.get(sub_no)
        if lease is None:
            return
        generation, lease_until_ms = lease
        if lease_until_ms > self._desk.clock.now_ms():
            self._lease(sub_no, generation, lease_until_ms)
        else:
            self.insist(ExpireLease(sub_no, generation))

    def _issued(self, event: Event) -> None:
        assert isinstance(event, WakeIssued | RetryScheduled)
        self._attempt(
            event.sub_no, event.generation, event.next_attempt_ms, is_webhook=event.is_webhook
        )

    def _leased(self, event: Event) -> None:
        assert isinstance(event, WakeClaimed | LeaseExtended)
        self._lease(event.sub_no, event.generation, event.lease_until_ms)

    def _ended(self, event: Event) -> None:
        assert isinstance(event, WakeEnded | SubscriptionDeleted)
        self._leases.pop(event.sub_no, None)


_NOTES: dict[type, Callable[[Alarms, Event], None]] = {
    WakeIssued: Alarms._issued,  # noqa: SLF001 - its own table
    RetryScheduled: Alarms._issued,  # noqa: SLF001
    WakeClaimed: Alarms._leased,  # noqa: SLF001
    LeaseExtended: Alarms._leased,  # noqa: SLF001
    WakeEnded: Alarms._ended,  # noqa: SLF001
    SubscriptionDeleted: Alarms._ended,  # noqa: SLF001
}
