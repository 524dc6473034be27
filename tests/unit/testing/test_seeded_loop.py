import asyncio
import random

import pytest

from millstream.testing.seeded_loop import SeededLoop


def loop_at(now_ms: int = 1000) -> SeededLoop:
    return SeededLoop(random.Random(1), now_ms)


def test_what_is_ready_runs_in_order_and_before_timers() -> None:
    loop = loop_at()
    ran: list[str] = []
    loop.call_later(0, ran.append, "timer")
    loop.call_soon(ran.append, "first")
    loop.call_soon(ran.append, "second")
    loop.run_for(0)
    assert ran == ["first", "second", "timer"]


def test_time_jumps_from_timer_to_timer() -> None:
    loop = loop_at()
    seen: list[int] = []
    for delay in (0.5, 0.2, 3.0):
        loop.call_later(delay, lambda: seen.append(loop.now_ms()))
    loop.run_for(1_000_000)
    assert seen == [1200, 1500]
    assert loop.now_ms() == 2000


def test_a_cancelled_timer_does_not_run() -> None:
    loop = loop_at()
    ran: list[int] = []
    handle = loop.call_later(0.1, ran.append, 1)
    handle.cancel()
    loop.run_for(1_000_000)
    assert handle.cancelled()
    assert ran == []


def test_coroutines_timeouts_and_workers_run_on_it() -> None:
    loop = loop_at()

    async def work() -> int:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 5)
        return int(await loop.run_in_executor(None, int, "7"))

    assert loop.finish(work()) == 7
    assert loop.now_ms() >= 6000


def test_a_workers_error_reaches_whoever_waits() -> None:
    loop = loop_at()

    async def work() -> None:
        await loop.run_in_executor(None, int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        loop.finish(work())


def test_a_coroutine_that_never_ends_is_given_up() -> None:
    loop = loop_at()
    with pytest.raises(TimeoutError):
        loop.finish(loop_sleep(loop), limit_s=1)


async def loop_sleep(loop: SeededLoop) -> None:
    await loop.create_future()
