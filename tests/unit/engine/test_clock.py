"""The engine's clock starts at the wall clock and then never listens to it again."""

import time

import pytest

from millstream.engine.clock import SteadyClock


def test_it_starts_at_the_wall_clock() -> None:
    before = time.time_ns() // 1_000_000
    now = SteadyClock().now_ms()
    assert before - 1 <= now <= time.time_ns() // 1_000_000 + 1


@pytest.mark.parametrize("step_s", [-7200, 259_200])
def test_a_stepped_wall_clock_does_not_move_it(
    monkeypatch: pytest.MonkeyPatch, step_s: int
) -> None:
    clock = SteadyClock()
    before = clock.now_ms()
    wall = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall + step_s * 1_000_000_000)
    assert 0 <= clock.now_ms() - before < 1000


def test_it_goes_on_with_the_boot_clock_through_a_suspend(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteadyClock()
    boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: boot)
    before = clock.now_ms()
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: boot + 3_600_000_000_000)
    assert clock.now_ms() - before == 3_600_000
