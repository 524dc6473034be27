"""Timers: one wake-up for the next deadline, everything due given out in order."""

from collections.abc import Callable

from millstream.core.machine import Command
from millstream.core.streams.commands import ExpireStream
from millstream.engine.timers import Timers
from tests.support.engines import StandingClock


class Board:
    def __init__(self) -> None:
        self.clock = StandingClock(1_000)
        self.given: list[Command] = []
        self.wakes: list[tuple[float, Callable[[], None]]] = []
        self.timers = Timers(
            self.clock, self.given.append, lambda delay, call: self.wakes.append((delay, call))
        )

    @property
    def delays(self) -> list[float]:
        return [delay for delay, _ in self.wakes]


def test_what_is_due_is_given_in_order_of_time_then_of_coming() -> None:
    board = Board()
    for deadline, number in ((3_000, 1), (2_000, 2), (2_000, 3), (9_000, 4)):
        board.timers.at(deadline, ExpireStream(number))
    board.clock.value_ms = 3_000
    board.timers.fire()
    assert board.given == [ExpireStream(2), ExpireStream(3), ExpireStream(1)]
    assert len(board.timers) == 1


def test_nothing_is_given_early() -> None:
    board = Board()
    board.timers.at(2_000, ExpireStream(1))
    board.clock.value_ms = 1_999
    board.timers.fire()
    assert board.given == []


def test_one_wake_up_is_asked_for_until_an_earlier_deadline_comes() -> None:
    board = Board()
    board.timers.at(3_000, ExpireStream(1))
    board.timers.at(4_000, ExpireStream(2))
    assert board.delays == [2.0]
    board.timers.at(1_500, ExpireStream(3))
    assert board.delays == [2.0, 0.5]


def test_after_firing_the_next_wake_up_is_asked_for() -> None:
    board = Board()
    board.timers.at(2_000, ExpireStream(1))
    board.timers.at(5_000, ExpireStream(2))
    board.clock.value_ms = 2_000
    board.wakes[0][1]()
    assert board.delays == [1.0, 3.0]


def test_a_passed_deadline_is_fired_by_the_loop_not_by_the_caller() -> None:
    board = Board()
    board.timers.at(1, ExpireStream(1))
    assert board.given == []
    assert board.delays == [0]


def test_a_far_deadline_is_looked_at_again_in_an_hour() -> None:
    board = Board()
    board.timers.at(2**62, ExpireStream(1))
    assert board.delays == [3600]
    board.wakes[0][1]()
    assert board.delays == [3600, 3600]


def test_a_callback_is_called_and_may_set_itself_again() -> None:
    board = Board()
    calls: list[int] = []

    def again() -> None:
        calls.append(board.clock.value_ms)
        board.timers.at(board.clock.value_ms + 1_000, again)

    board.timers.at(2_000, again)
    for now in (2_000, 3_000):
        board.clock.value_ms = now
        board.timers.fire()
    assert calls == [2_000, 3_000]


def test_after_the_stop_nothing_fires_any_more() -> None:
    board = Board()
    board.timers.at(2_000, ExpireStream(1))
    board.timers.stop()
    board.timers.at(2_000, ExpireStream(2))
    board.clock.value_ms = 9_000
    board.timers.fire()
    assert board.given == []
