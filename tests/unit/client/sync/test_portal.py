import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from millstream.client.errors import ClientClosed
from millstream.client.sync.portal import Portal


async def doubled(number: int) -> int:
    return number * 2


def test_coroutines_run_on_one_other_thread_and_give_results_and_errors() -> None:
    portal = Portal()
    assert portal.run(doubled(2)) == 4
    threads = {portal.call(threading.current_thread) for _ in range(3)}
    assert len(threads) == 1
    assert threading.current_thread() not in threads

    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        portal.run(fail())
    portal.close()


def test_an_asynchronous_iterator_is_followed_item_by_item() -> None:
    async def numbers() -> AsyncIterator[int]:
        for number in range(3):
            yield number

    portal = Portal()
    assert list(portal.iterate(numbers())) == [0, 1, 2]
    portal.close()


def test_closing_cancels_what_runs_ends_the_thread_and_may_be_repeated() -> None:
    portal = Portal()
    thread = portal.call(threading.current_thread)
    ended = threading.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    portal.submit(wait())
    portal.call(lambda: None)
    portal.close()
    portal.close()
    assert ended.is_set()
    assert not thread.is_alive()
    with pytest.raises(ClientClosed):
        portal.run(doubled(1))


def test_a_blocking_call_on_the_loops_own_thread_is_refused() -> None:
    portal = Portal()

    def inside() -> None:
        portal.run(doubled(1))

    with pytest.raises(RuntimeError, match="own loop"):
        portal.call(inside)
    portal.close()
