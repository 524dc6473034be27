"""Deadlines come as commands, once each, whatever was extended or refused in between."""

import pytest

from millstream.core.errors import Code, Refused
from millstream.core.subscriptions.commands import (
    AnnounceWake,
    ClaimWake,
    DeleteSubscription,
    ExpireLease,
    Outcome,
    WebhookOutcome,
)
from millstream.core.subscriptions.state import Phase
from millstream.server.alarms import Alarms
from tests.support.subscribing import FakeDesk, World, ack_of, pull, webhook


class Office:
    """Alarms over a world with one subscription and work for it."""

    def __init__(self, *, is_webhook: bool) -> None:
        self.world = World()
        self.world.create("wake")
        self.world.subscribe("s", webhook() if is_webhook else pull())
        self.desk = FakeDesk(self.world)
        self.delivered: list[tuple[int, int]] = []
        self.alarms = Alarms(self.desk, lambda *wake: self.delivered.append(wake))

    def work(self) -> None:
        self.world.now_ms = self.desk.clock.value_ms
        self.world.create("events/a", "1")
        for event in self.world.last:
            self.alarms.see(event)

    def count(self, kind: type) -> int:
        return sum(isinstance(command, kind) for command in self.desk.asked)


def test_a_lease_that_runs_out_is_ended_and_the_work_wakes_again() -> None:
    office = Office(is_webhook=False)
    office.alarms.start()
    office.work()
    office.desk.submit(ClaimWake("s", "w1"))
    office.desk.advance(999)
    assert office.world.sub().holder == "w1"
    office.desk.advance(1)
    assert (office.world.sub().holder, office.world.sub().generation) == (None, 2)


def test_a_holder_that_shows_life_keeps_its_lease_and_costs_one_timer() -> None:
    office = Office(is_webhook=False)
    office.alarms.start()
    office.work()
    held = office.world.claimed()
    for event in office.world.last:
        office.alarms.see(event)
    timers = len(office.desk.timers)
    for _ in range(20):
        office.desk.advance(400)
        office.desk.submit(ack_of(held))
        assert len(office.desk.timers) <= timers
    assert office.world.sub().holder == "w1"
    assert office.count(ExpireLease) == 0
    office.desk.advance(1000)
    assert office.world.sub().holder is None


def test_a_wake_that_ended_in_time_needs_no_alarm() -> None:
    office = Office(is_webhook=False)
    office.alarms.start()
    office.work()
    office.desk.submit(ClaimWake("s", "w1"))
    office.desk.submit(DeleteSubscription("s"))
    office.desk.advance(5000)
    assert office.count(ExpireLease) == 0


def test_an_unclaimed_wake_is_announced_again() -> None:
    office = Office(is_webhook=False)
    office.alarms.start()
    office.work()
    office.desk.advance(30_000)
    office.desk.advance(60_000)
    assert office.count(AnnounceWake) == 2
    assert len(office.world.messages("wake")) == 3


def test_webhooks_are_delivered_at_once_and_again_when_due() -> None:
    office = Office(is_webhook=True)
    office.alarms.start()
    office.work()
    assert office.delivered == [(1, 1)]
    office.desk.submit(WebhookOutcome(1, 1, 0, Outcome.FAILED, 0.0))
    office.desk.advance(999)
    assert office.delivered == [(1, 1)]
    office.desk.advance(1)
    assert office.delivered == [(1, 1), (1, 1)]


@pytest.mark.parametrize("is_webhook", [True, False])
def test_what_the_last_run_left_is_taken_up(is_webhook: bool) -> None:
    office = Office(is_webhook=is_webhook)
    office.world.create("events/a", "1")
    if is_webhook:
        office.world.do(WebhookOutcome(1, 1, 0, Outcome.FAILED, 0.0))
    else:
        office.world.claimed()
    office.world.restart()
    office.alarms.start()
    office.desk.advance(1000)
    if is_webhook:
        assert office.delivered == [(1, 1)]
    else:
        assert office.world.sub().phase is Phase.WAKING


def test_a_command_without_room_is_given_again_and_one_at_the_end_is_not() -> None:
    office = Office(is_webhook=False)
    office.alarms.start()
    office.work()
    office.desk.submit(ClaimWake("s", "w1"))
    office.desk.refusals = [Refused(code=Code.OVERLOADED, detail="")]
    office.desk.advance(1000)
    assert office.world.sub().holder == "w1"
    office.desk.refusals = [Refused(code=Code.STOPPING, detail="")]
    office.desk.advance(1000)
    assert office.world.sub().holder == "w1"
    office.desk.advance(60_000)
    assert office.count(ExpireLease) == 2


def test_a_refused_look_at_the_wakes_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    office = Office(is_webhook=False)
    office.desk.refusals = [Refused(code=Code.STORAGE_FAILED, detail="broken")]
    office.alarms.start()
    assert "cannot be taken up" in caplog.text
