"""An event loop without time or threads: the same calls in the same order for the same seed.

It has just what the engine asks of a loop. Time jumps to the next timer; what would run on a
worker thread runs on the loop after a delay that the seed chooses.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    import random

T = TypeVar("T")

CALL_US_MAX = 300


class Call:
    """A callback that waits for its turn."""

    __slots__ = ("_act", "_is_cancelled")

    def __init__(self, act: Callable[[], object]) -> None:
        """Keep ``act`` until it is run or cancelled."""
        self._act = act
        self._is_cancelled = False

    def cancel(self) -> None:
        """Let it never run."""
        self._is_cancelled = True

    def cancelled(self) -> bool:
        """Tell whether it was cancelled."""
        return self._is_cancelled

    def run(self) -> None:
        """Run it, unless it was cancelled."""
        if not self._is_cancelled:
            self._act()


class SeededLoop:
    """The loop, as far as the engine needs one; only ``run_for`` moves its clock on."""

    def __init__(self, rng: random.Random, now_ms: int) -> None:
        """Start at ``now_ms``."""
        self._rng = rng
        self._now_us = now_ms * 1000
        self._ready: deque[Call] = deque()
        self._timers: list[tuple[int, int, Call]] = []
        self._count = 0
        self.errors: list[str] = []

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """Return this loop as the type that asyncio wants; most of that is not there."""
        return cast("asyncio.AbstractEventLoop", self)

    def now_ms(self) -> int:
        """Return the time in Unix milliseconds."""
        return self._now_us // 1000

    def time(self) -> float:
        """Return the time in seconds, as loops do."""
        return self._now_us / 1_000_000

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        """Run ``callback`` behind everything that is ready now."""
        call = Call(lambda: context.run(callback, *args) if context else callback(*args))
        self._ready.append(call)
        return call

    def call_later(
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """Run ``callback`` when ``delay`` seconds have passed."""
        call = Call(lambda: context.run(callback, *args) if context else callback(*args))
        self._count += 1
        heapq.heappush(self._timers, (self._now_us + round(delay * 1_000_000), self._count, call))
        return call

    def call_at(
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Any:
        """Run ``callback`` at a time of this loop's clock."""
        return self.call_later(max(when - self.time(), 0), callback, *args, context=context)

    def create_future(self) -> asyncio.Future[Any]:
        """Return a future of this loop."""
        return asyncio.Future(loop=self.as_loop)

    def create_task(self, coro: Any, **_: Any) -> Any:
        """Run a coroutine on this loop."""
        return asyncio.Task(coro, loop=self.as_loop)

    def run_in_executor(self, _executor: object, func: Any, *args: Any) -> asyncio.Future[Any]:
        """Run ``func`` after a while, as a worker thread would."""
        future = self.create_future()

        def work() -> None:
            try:
                future.set_result(func(*args))
            except Exception as error:  # noqa: BLE001 - handed on to whoever waits
                future.set_exception(error)

        self.call_later(self._rng.randrange(3000) / 1_000_000, work)
        return future

    def get_debug(self) -> bool:
        """Tell that nothing is watched beyond what the simulation watches itself."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep what nobody waited for."""
        self.errors.append(str(context.get("message")))

    def run_for(self, microseconds: int) -> None:
        """Let that much time pass and run all that falls due."""
        end_us = self._now_us + microseconds
        # What asks for the running loop (a timeout, an event) has to find this one.
        asyncio._set_running_loop(self.as_loop)  # noqa: SLF001 - there is no public way
        try:
            self._run_ready()
            while self._timers and self._timers[0][0] <= end_us:
                due_us, _, call = heapq.heappop(self._timers)
                self._now_us = max(self._now_us, due_us)
                call.run()
                self._run_ready()
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001 - as above
        self._now_us = max(self._now_us, end_us)

    def finish(self, work: Coroutine[Any, Any, T], limit_s: int = 3600) -> T:
        """Run a coroutine to its end, however long that takes on this clock."""
        task = self.create_task(work)
        for _ in range(limit_s * 100):
            if task.done():
                return cast("T", task.result())
            self.run_for(10_000)
        raise TimeoutError("the coroutine did not end")

    def _run_ready(self) -> None:
        while self._ready:
            self._ready.popleft().run()
            # No callback is free: what was looked up before it may be out of date after it.
            self._now_us += self._rng.randrange(CALL_US_MAX)
