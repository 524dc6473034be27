from typing import Any

from millstream.client.core.batches import MESSAGE_OVERHEAD_BYTES, Gatherer
from millstream.client.core.intake import Intake
from millstream.client.core.outcomes import Outcomes
from millstream.client.errors import BadMessage, MessageTooLarge
from millstream.client.producing_options import ProducerOptions


def intake(**options: Any) -> tuple[Intake, Outcomes]:
    made = ProducerOptions(**options)
    outcomes = Outcomes()
    return Intake(Gatherer(made), outcomes, made), outcomes


def test_the_buffer_takes_so_much_and_no_more() -> None:
    taking, outcomes = intake(max_buffered_bytes=2 * (MESSAGE_OVERHEAD_BYTES + 10))
    assert taking.has_room(b"x" * 10)
    taking.append(b"x" * 10, 0.0)
    assert taking.has_room(b"x" * 10)
    assert not taking.has_room(b"x" * 11)
    taking.append(b"x" * 10, 0.0)
    assert not taking.has_room(b"x")
    assert outcomes.buffered_bytes == 2 * (MESSAGE_OVERHEAD_BYTES + 10)


def test_an_empty_buffer_takes_a_message_that_fills_it() -> None:
    taking, _ = intake(max_buffered_bytes=10)
    assert taking.has_room(b"x" * 10)
    taking.append(b"x" * 10, 0.0)
    assert not taking.has_room(b"x")


def test_a_message_too_large_fails_alone_even_if_there_is_no_room() -> None:
    taking, outcomes = intake(max_message_bytes=4, max_buffered_bytes=10)
    filling = taking.append(b"1234", 0.0)
    assert taking.has_room(b"12345")
    failed = taking.append(b"12345", 0.0)
    assert isinstance(failed.outcome, MessageTooLarge)
    assert taking.filling is filling
    assert filling.parts == [b"1234"]
    assert isinstance(outcomes.first_failure(taking.seal()), MessageTooLarge)


def test_an_empty_message_fails_alone() -> None:
    taking, outcomes = intake()
    assert isinstance(taking.append(b"", 0.0).outcome, BadMessage)
    assert outcomes.buffered_bytes == 0


def test_what_closes_the_stream_is_a_batch_of_its_own_behind_all_others() -> None:
    taking, _ = intake()
    first = taking.append(b"1", 0.0)
    last = taking.append_last(b"2", 0.0)
    assert last.closes
    assert last is not first
    assert (first.number, last.number, taking.filling) == (1, 2, None)
    assert taking.append_last(None, 0.0).count == 0
