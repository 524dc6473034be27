import asyncio
import gc

import pytest

from millstream.client.aio.delivery import Delivery, settled, unwrapped, wake
from millstream.client.core.batches import Batch, Delivered
from millstream.client.errors import BadMessage

pytestmark = pytest.mark.anyio

DONE = Delivered("5", False, 0, 0)


def batch_of(*parts: bytes) -> Batch:
    batch = Batch(1, 0.0)
    for part in parts:
        batch.add(part)
    return batch


async def test_a_report_may_be_awaited_by_many_and_again() -> None:
    batch = batch_of(b"a")
    delivery = Delivery(batch, 0)
    assert delivery.outcome is None
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(_result(delivery)) for _ in range(3)]
        await asyncio.sleep(0)
        batch.outcome = DONE
        wake(batch)
    assert [task.result() for task in waiting] == [DONE] * 3
    assert await delivery == DONE
    assert delivery.outcome == DONE


async def test_one_who_gives_up_does_not_take_the_others_along() -> None:
    batch = batch_of(b"a")
    delivery = Delivery(batch, 0)
    loop = asyncio.get_running_loop()
    leaving, staying = loop.create_task(_result(delivery)), loop.create_task(_result(delivery))
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.wait([leaving])
    batch.outcome = DONE
    wake(batch)
    assert await staying == DONE


async def test_each_gets_an_error_of_its_own() -> None:
    batch = batch_of(b"a")
    batch.outcome = BadMessage("no")
    caught = []
    for _ in range(2):
        with pytest.raises(BadMessage) as error:
            await Delivery(batch, 0)
        caught.append(error.value)
    assert caught[0] is not caught[1]
    with pytest.raises(BadMessage):
        unwrapped(batch.outcome)


async def test_a_failure_that_nobody_asks_for_makes_no_noise() -> None:
    noise: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context))
    batch = batch_of(b"a")
    delivery = Delivery(batch, 0)
    batch.outcome = BadMessage("no")
    wake(batch)
    del delivery, batch
    gc.collect()
    await asyncio.sleep(0)
    assert noise == []


async def test_a_report_follows_its_message_when_the_batch_is_split() -> None:
    batch = batch_of(b"a", b"b")
    second = asyncio.get_running_loop().create_task(_result(Delivery(batch, 1)))
    whole = asyncio.get_running_loop().create_task(settled(batch))
    await asyncio.sleep(0)
    halves = batch.split()
    wake(batch)
    await asyncio.sleep(0)
    halves[1].outcome = DONE
    wake(halves[1])
    assert await second == DONE
    assert not whole.done()
    halves[0].outcome = BadMessage("no")
    wake(halves[0])
    await whole


async def _result(delivery: Delivery) -> Delivered:
    return await delivery
