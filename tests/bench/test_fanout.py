"""An event is finished when it is acked and has reached every reader."""

import asyncio

import pytest

from bench.load.dialect import Request
from bench.load.fanout import Board, Slot

pytestmark = pytest.mark.anyio


class Wire(asyncio.Transport):
    """A transport that remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: object) -> None:
        assert isinstance(data, bytes)
        self.written.append(data)


def slot_on(board: Board, mark: bytes, wire: Wire, hello: bytes = b"") -> Slot:
    slot = Slot(board, len, Request(b"event", 1, 1, hello))
    slot.connection_made(wire)
    board.slots[mark[0]] = slot
    return slot


async def test_the_next_event_waits_for_the_ack_and_for_every_reader() -> None:
    board, wire = Board(readers=2), Wire()
    slot = slot_on(board, b"~", wire)
    board.begin()
    board.deliver(b"~")
    board.deliver(b"~")
    assert wire.written == [b"event"]
    slot.data_received(b"1")
    assert wire.written == [b"event", b"event"]


async def test_the_ack_may_come_before_the_last_reader() -> None:
    board, wire = Board(readers=1), Wire()
    slot = slot_on(board, b"~", wire)
    board.begin()
    slot.data_received(b"1")
    assert len(wire.written) == 1
    board.deliver(b"~")
    assert len(wire.written) == 2


async def test_each_delivery_counts_for_the_event_whose_mark_it_has() -> None:
    board, first, second = Board(readers=1), Wire(), Wire()
    slot_on(board, b"~", first).missing = 0
    other = slot_on(board, b"^", second)
    board.begin()
    other.data_received(b"1")
    board.deliver(b"^")
    assert (len(first.written), len(second.written)) == (1, 2)
    assert len(board.latencies) == 1


async def test_draining_waits_for_what_is_in_flight_and_sends_nothing() -> None:
    board, wire = Board(readers=1), Wire()
    slot = slot_on(board, b"~", wire)
    board.begin()
    waiting = asyncio.ensure_future(board.drain())
    await asyncio.sleep(0)
    assert not waiting.done()
    board.deliver(b"~")
    slot.data_received(b"1")
    await waiting
    assert len(wire.written) == 1


async def test_a_writer_that_is_hung_up_on_fails_the_load() -> None:
    board, wire = Board(readers=1), Wire()
    slot = slot_on(board, b"~", wire)
    board.begin()
    slot.connection_lost(None)
    with pytest.raises(ConnectionError):
        await board.drain()


async def test_a_writer_says_first_what_must_be_said_first() -> None:
    board, wire = Board(readers=1), Wire()
    slot_on(board, b"~", wire, hello=b"SUB")
    board.begin()
    assert wire.written == [b"SUB", b"event"]
